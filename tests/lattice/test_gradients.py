"""Gradients in values, filters and features."""

import pytest
import torch
from torch.autograd import gradcheck

from permutogeo import Lattice

DOUBLE = torch.float64
FIVE_TAPS = (0.1, 0.6, 1.0, 0.6, 0.1)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_gradients(dim):
    feature = (torch.rand(7, dim, dtype=DOUBLE) * 3).requires_grad_()
    other = (torch.rand(5, dim, dtype=DOUBLE) * 3).requires_grad_()
    x = torch.randn(7, 2, dtype=DOUBLE, requires_grad=True)
    bank = torch.randn(2 ** (dim + 1) - 1, 2, 3, dtype=DOUBLE, requires_grad=True)
    batch = torch.tensor([0, 1, 0, 1, 1, 0, 1])

    def own(feature, x, bank):
        lattice = Lattice.build(feature, batch)
        return lattice.slice(lattice.convolve(lattice.blur(lattice.splat(x)), bank))

    def bipartite(feature, other, x, bank):
        lattice, at = Lattice.build_bipartite(feature, other)
        return lattice.slice(lattice.convolve(lattice.blur(lattice.splat(x)), bank), at)

    def located(feature, other, x, bank):
        lattice = Lattice.build(feature)
        return lattice.slice(lattice.convolve(lattice.splat(x), bank), lattice.locate(other))

    assert gradcheck(own, (feature, x, bank))
    assert gradcheck(bipartite, (feature, other, x, bank))
    assert gradcheck(located, (feature, other, x, bank))


def test_gradient_of_taps_shared_and_depthwise():
    feature = (torch.rand(8, 2, dtype=DOUBLE) * 3).requires_grad_()
    x = torch.randn(8, 4, dtype=DOUBLE, requires_grad=True)
    shared = torch.randn(7, dtype=DOUBLE, requires_grad=True)
    deep = torch.randn(7, 1, 4, dtype=DOUBLE, requires_grad=True)
    grouped = torch.randn(7, 2, 6, dtype=DOUBLE, requires_grad=True)

    def through(feature, x, shared, deep, grouped):
        lattice = Lattice.build(feature, taps=FIVE_TAPS)
        values = lattice.convolve(lattice.blur(lattice.splat(x)), shared, shared=True)
        values = lattice.convolve(values, deep, groups=4, dilation=2)
        return lattice.slice(lattice.convolve(values, grouped, groups=2))

    assert gradcheck(through, (feature, x, shared, deep, grouped))


def test_second_gradients():
    feature = (torch.rand(5, 2, dtype=DOUBLE) * 3).requires_grad_()
    x = torch.randn(5, 1, dtype=DOUBLE, requires_grad=True)
    bank = torch.randn(7, 1, 2, dtype=DOUBLE, requires_grad=True)

    def through(feature, x, bank):
        lattice = Lattice.build(feature)
        return lattice.slice(lattice.convolve(lattice.splat(x), bank))

    assert torch.autograd.gradgradcheck(through, (feature, x, bank))
