"""Convolution of the neighbors that are present alone."""

import sys

import pytest
import torch
from torch.testing import assert_close

from permutogeo import Lattice, ops

SPARSE = sys.modules["permutogeo.ops.convolve_edges"]
DENSE = sys.modules["permutogeo.ops.convolve"]


def scene(dim=4, count=400, channels=48):
    generator = torch.Generator().manual_seed(0)
    lattice = Lattice.build(3 * torch.randn(count, dim, generator=generator))
    taps = lattice.neighbors().shape[1]
    values = torch.randn(lattice.num_vertices, channels, generator=generator)
    bank = torch.randn(taps, channels, channels, generator=generator)
    return lattice, values.requires_grad_(), bank.requires_grad_()


def convolved(lattice, values, bank):
    out = lattice.convolve(values, bank)
    return out, *torch.autograd.grad(out.square().sum(), (values, bank))


def test_result_and_gradients(monkeypatch):
    lattice, values, bank = scene()
    dense = convolved(lattice, values, bank)
    monkeypatch.setattr(SPARSE, "_FEWEST_TARGETS", 1)
    monkeypatch.delattr(ops, "convolve")  # not used below
    sparse = convolved(lattice, values, bank)
    assert_close(sparse, dense, rtol=1e-3, atol=1e-2)


def test_many_neighbors_and_narrow_products_stay_dense(monkeypatch):
    monkeypatch.setattr(SPARSE, "_FEWEST_TARGETS", 1)
    lattice, _, _ = scene()
    sparse = lattice.neighbors()
    assert (sparse >= 0).float().mean() < 0.4
    assert ops.edges_pay(sparse, 48, 64) and ops.edges_pay(sparse, 24, 64)
    assert not ops.edges_pay(sparse, 16, 64)
    assert not ops.edges_pay(sparse.clamp(min=0), 64, 64)
    half = torch.where(torch.arange(sparse.shape[1]) % 2 > 0, -1, 0).expand_as(sparse)
    assert ops.edges_pay(half, 48, 48) and not ops.edges_pay(half, 32, 32)


def test_small_tables_stay_dense():
    lattice, _, _ = scene()
    assert not ops.edges_pay(lattice.neighbors(), 64, 64)


def test_wide_products_are_sparse_sooner():
    absent = torch.full((1024, 15), -1, dtype=torch.int32)
    assert ops.edges_pay(absent, 128, 128) and ops.edges_pay(absent, 128, 256)
    assert not ops.edges_pay(absent, 64, 128) and not ops.edges_pay(absent[1:], 128, 128)


def test_same_bits_on_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(SPARSE, "_FEWEST_TARGETS", 1)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            found.append(convolved(*scene()))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert_close(other, found[0], rtol=0, atol=0)


@pytest.mark.parametrize("count", [40, 400])
@pytest.mark.parametrize("channels", [(3, 5), (16, 16), (7, 12), (12, 11)])
def test_small_convolutions_have_the_bits_of_large_ones(monkeypatch, channels, count):
    """They are gathered at once on one thread, and in chunks on several."""
    lattice, _, _ = scene(dim=3, count=count)
    inputs, outputs = channels
    values = torch.randn(lattice.num_vertices, inputs, requires_grad=True)
    bank = torch.randn(15, inputs, outputs, requires_grad=True)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        small = convolved(lattice, values, bank)
        monkeypatch.setattr(DENSE, "_is_small", lambda *_: False)
        assert_close(small, convolved(lattice, values, bank), rtol=0, atol=0)
    finally:
        torch.set_num_threads(before)
