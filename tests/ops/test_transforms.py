"""``torch.func`` and forward-mode autograd through every differentiable operator."""

import pytest
import torch
from torch.autograd import forward_ad, gradcheck
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

from permutogeo import Lattice, ops

DOUBLE = torch.float64


@pytest.fixture
def arguments():
    """Points, features, and a dense, a shared and a depthwise filter."""
    shapes = [(12, 2), (12, 2), (7, 2, 2), (7,), (7, 1, 2)]
    x, feature, *filters = (torch.rand(shape, dtype=DOUBLE) for shape in shapes)
    return x, 3 * feature, *filters


@pytest.fixture
def tangents(arguments):
    return tuple(map(torch.randn_like, arguments))


def apply(x, feature, dense, shared, depthwise):
    """Every operator of a lattice, at its own points and at others."""
    lattice = Lattice.build(feature)
    values = lattice.convolve(lattice.blur(lattice.splat(x)), dense)
    values = lattice.convolve(values, shared, shared=True)
    values = lattice.convolve(values, depthwise, groups=2)
    return lattice.slice(values) + lattice.slice(values, lattice.locate(0.9 * feature))


def loss(*arguments):
    return apply(*arguments).square().sum()


def test_jvp_is_the_directional_derivative(arguments, tangents):
    _, tangent = jvp(apply, arguments, tangents)
    step = 1e-6
    ahead, behind = (
        apply(*(a + sign * step * d for a, d in zip(arguments, tangents, strict=True)))
        for sign in (1, -1)
    )
    torch.testing.assert_close(tangent, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-6)


def test_dual_numbers(arguments, tangents):
    _, expected = jvp(apply, arguments, tangents)
    with forward_ad.dual_level():
        duals = map(forward_ad.make_dual, arguments, tangents)
        tangent = forward_ad.unpack_dual(apply(*duals)).tangent
    torch.testing.assert_close(tangent, expected)


def test_gradcheck_of_forward_mode(arguments):
    assert gradcheck(apply, [a.requires_grad_() for a in arguments], check_forward_ad=True)


def test_reverse_transforms_are_autograd(arguments):
    everything = tuple(range(5))
    found = grad(loss, argnums=everything)(*arguments)
    out, pull = vjp(apply, *arguments)
    leaves = [a.clone().requires_grad_() for a in arguments]
    expected = torch.autograd.grad(loss(*leaves), leaves)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(pull(2 * out), expected)


def test_jacobians_of_both_modes_agree(arguments):
    reverse, forward = (mode(apply, argnums=(0, 1, 2))(*arguments) for mode in (jacrev, jacfwd))
    torch.testing.assert_close(reverse, forward)


def test_second_derivatives(arguments, tangents):
    x, feature, dense, *rest = arguments

    def of_filter(bank):
        return loss(x, feature, bank, *rest)

    expected = torch.autograd.functional.hessian(of_filter, dense)
    torch.testing.assert_close(hessian(of_filter)(dense), expected)
    slope = grad(lambda bank: jvp(of_filter, (bank,), (tangents[2],))[1])(dense)
    torch.testing.assert_close(slope, torch.einsum("abcdef,def->abc", expected, tangents[2]))


def test_vmap_over_values(arguments):
    lattice = Lattice.build(arguments[1])
    rows = torch.rand(3, 12, 2, dtype=DOUBLE)

    def smooth(x):
        return lattice.slice(lattice.blur(lattice.splat(x)))

    expected = torch.stack([smooth(x) for x in rows])
    torch.testing.assert_close(vmap(smooth)(rows), expected)
    torch.testing.assert_close(
        vmap(smooth, in_dims=2, out_dims=2)(rows.movedim(0, 2)), expected.movedim(0, 2)
    )


def test_vmap_over_lattices_of_different_sizes():
    feature = torch.stack([torch.zeros(5, 2), 9 * torch.rand(5, 2)])
    with pytest.raises(ValueError, match=r"^Expected results of equal size under vmap .*'build'"):
        vmap(lambda f: Lattice.build(f).weight)(feature)


def test_edges(arguments):
    """Convolution along edges, in forward mode."""
    values, bank = torch.rand(4, 2, dtype=DOUBLE), torch.rand(2, 2, 3, dtype=DOUBLE)
    edges = torch.tensor([[0, 1, 2, 3], [1, 0, 1, 2]], dtype=torch.int32)
    begin = torch.tensor([0, 2, 4])
    indices = (edges, begin, edges.flip(0), begin, torch.arange(2))

    def convolve(values, bank):
        return ops.convolve_edges(values, bank, *indices, 3)

    inputs = values.requires_grad_(), bank.requires_grad_()
    assert gradcheck(convolve, inputs, check_forward_ad=True)
