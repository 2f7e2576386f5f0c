"""Batch normalization of weighted rows, by kernels and by torch."""

import sys

import pytest
import torch
from torch.testing import assert_close

from permutogeo.ops import batch_norm, normalize, statistics

DOUBLE = torch.float64


@pytest.fixture(autouse=True)
def _fused(monkeypatch):
    monkeypatch.setattr(sys.modules["permutogeo.ops.batch_norm"], "_FEWEST_VALUES", 1)


def rows(count=600, channels=21, dtype=DOUBLE):
    """Rows, their masses, the total mass, factor and offset."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_()

    values = (5 + draw(count, channels)).detach().requires_grad_()
    mass = draw(count, 1).detach().abs()
    return values, mass, mass.sum(), draw(channels), draw(channels)


def by_torch(values, mass, count, weight, bias):
    mean, var = statistics(values, mass, count)
    return normalize(values, mean, var, weight, bias, 1e-5), mean, var


@pytest.mark.parametrize("channels", [1, 5, 21, 64])
def test_torch(channels, dtype):
    inputs = rows(channels=channels, dtype=dtype)
    found, expected = batch_norm(*inputs, 1e-5), by_torch(*inputs)
    tolerance = {"rtol": 1e-9, "atol": 1e-9} if dtype == DOUBLE else {"rtol": 1e-3, "atol": 1e-4}
    for pair in zip(found, expected, strict=True):
        assert_close(*pair, **tolerance)
    assert "Fused" in type(found[0].grad_fn).__name__
    leaves, grad = (inputs[0], *inputs[3:]), torch.randn_like(found[0])
    each = (torch.autograd.grad(out[0], leaves, grad) for out in (found, expected))
    assert_close(*each, **tolerance)


def test_equal_masses_are_batch_normalization():
    values, _, _, weight, bias = rows()
    mass = torch.ones(len(values), 1, dtype=DOUBLE)
    found, _, _ = batch_norm(values, mass, mass.sum(), weight, bias, 1e-5)
    expected = torch.nn.functional.batch_norm(values, None, None, weight, bias, training=True)
    assert_close(found, expected)


def test_gradients(check):
    values, mass, count, weight, bias = rows(8, 3)
    check.gradients(
        lambda *leaves: batch_norm(leaves[0], mass, count, *leaves[1:], 1e-5)[0],
        *(each.detach() for each in (values, weight, bias)),
    )


def test_frozen_parameters():
    values, mass, count, weight, bias = rows(40, 3)
    for frozen in (weight, bias):
        frozen.requires_grad_(False)
    out = batch_norm(values, mass, count, weight, bias, 1e-5)[0]
    (first,) = torch.autograd.grad(out.square().sum(), values, create_graph=True)
    assert torch.autograd.grad(first.square().sum(), values)[0].isfinite().all()


def test_no_mass():
    values, mass, _, weight, bias = rows(300, 3)
    out, mean, _ = batch_norm(values, 0 * mass, 0 * mass.sum(), weight, bias, 1e-5)
    assert not mean.any() and out.isfinite().all()


def test_same_bits_on_any_number_of_threads():
    values, mass, count, weight, bias = rows(9000, 21, torch.float32)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            out = batch_norm(values, mass, count, weight, bias, 1e-5)
            found.append((*out, *torch.autograd.grad(out[0].square().sum(), (values, weight))))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert_close(other, found[0], rtol=0, atol=0)


def test_rows_in_any_layout():
    values, mass, count, weight, bias = rows(50, 8)
    turned = values.detach().t().contiguous().t()
    assert_close(
        batch_norm(turned, mass, count, weight, bias, 1e-5),
        batch_norm(values, mass, count, weight, bias, 1e-5),
    )
