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


def by_torch(values, mass, count, weight, bias, relu=False):
    mean, var = statistics(values, mass, count)
    return normalize(values, mean, var, weight, bias, 1e-5, relu), mean, var


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("channels", [1, 5, 21, 64])
def test_torch(channels, relu, dtype):
    inputs = rows(channels=channels, dtype=dtype)
    found, expected = batch_norm(*inputs, 1e-5, relu), by_torch(*inputs, relu)
    tolerance = {"rtol": 1e-9, "atol": 1e-9} if dtype == DOUBLE else {"rtol": 1e-3, "atol": 1e-4}
    for pair in zip(found, expected, strict=True):
        assert_close(*pair, **tolerance)
    assert "Fused" in type(found[0].grad_fn).__name__
    leaves, grad = (inputs[0], *inputs[3:]), torch.randn_like(found[0])
    each = (torch.autograd.grad(out[0], leaves, grad) for out in (found, expected))
    assert_close(*each, **tolerance)


@pytest.mark.parametrize("relu", [False, True])
def test_equal_masses_are_batch_normalization(relu):
    values, _, _, weight, bias = rows()
    mass = torch.ones(len(values), 1, dtype=DOUBLE)
    found, mean, var = batch_norm(values, mass, mass.sum(), weight, bias, 1e-5, relu)
    tracked = [torch.zeros(21, dtype=DOUBLE) for _ in range(2)]
    options = {"training": True, "momentum": 1.0}
    expected = torch.nn.functional.batch_norm(values, *tracked, weight, bias, **options)
    expected = expected.relu() if relu else expected
    assert_close(found, expected)
    assert_close([mean, var * len(values) / (len(values) - 1)], tracked)
    leaves, grad = (values, weight, bias), torch.randn_like(found)
    first = [torch.autograd.grad(out, leaves, grad, create_graph=True) for out in (found, expected)]
    assert_close(*first)
    assert_close(*(torch.autograd.grad(grads[0].square().sum(), leaves[:2]) for grads in first))


@pytest.mark.parametrize("relu", [False, True])
def test_gradients(relu, check):
    values, mass, count, weight, bias = rows(8, 3)
    check.gradients(
        lambda *leaves: batch_norm(leaves[0], mass, count, *leaves[1:], 1e-5, relu)[0],
        *(each.detach() for each in (values, weight, bias)),
    )


@pytest.mark.parametrize("count", [1, 255, 256, 257, 513])
def test_runs_of_rows(count):
    """The last run is shorter; a single row is normalized to the offset."""
    inputs = rows(count, 19)
    assert_close(batch_norm(*inputs, 1e-5), by_torch(*inputs))


def test_nan_stays():
    inputs = rows(300, 20)
    with torch.no_grad():
        inputs[0][7, 3] = torch.nan
    out = batch_norm(*inputs, 1e-5, True)[0]
    assert out[:, 3].isnan().all() and out.isnan().sum() == len(out)


def test_no_rows():
    values, mass, count, weight, bias = rows(0, 3)
    out, mean, var = batch_norm(values, mass, count, weight, bias, 1e-5, True)
    assert out.shape == (0, 3) and not mean.any() and not var.any()


@pytest.mark.parametrize("relu", [False, True])
def test_tiny_batches_are_left_to_torch(relu, monkeypatch):
    monkeypatch.undo()
    inputs = rows(8, 3)
    out, *others = batch_norm(*inputs, 1e-5, relu)
    assert "Fused" not in type(out.grad_fn).__name__
    assert_close((out, *others), by_torch(*inputs, relu))


def test_compile():
    inputs = rows(600, 5)
    compiled = torch.compile(batch_norm, fullgraph=True, backend="aot_eager")
    assert_close(compiled(*inputs, 1e-5, True), batch_norm(*inputs, 1e-5, True))


def test_transforms_and_forward_mode():
    values, mass, count, weight, bias = (each.detach() for each in rows(40, 3))

    def total(x):
        return batch_norm(x, mass, count, weight, bias, 1e-5, True)[0].square().sum()

    tangent, step = torch.randn_like(values), 1e-6
    numeric = (total(values + step * tangent) - total(values - step * tangent)) / (2 * step)
    assert_close((torch.func.grad(total)(values) * tangent).sum(), numeric, rtol=1e-6, atol=1e-6)
    assert_close(torch.func.jvp(total, (values,), (tangent,))[1], numeric, rtol=1e-6, atol=1e-6)


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
        for threads in (1, 2, 5, 8):
            torch.set_num_threads(threads)
            out = batch_norm(values, mass, count, weight, bias, 1e-5, True)
            leaves = (values, weight, bias)
            found.append((*out, *torch.autograd.grad(out[0].square().sum(), leaves)))
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
