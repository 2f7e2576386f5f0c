"""Normalization by the response to ones."""

import pytest
import torch

from permutogeo import Lattice
from permutogeo.lattice.normalization import (
    append_ones,
    divide_by_mass,
    factors,
    normalized,
    normalized_after,
    normalizers,
)


def test_append_ones():
    x = torch.rand(2, 5, 3)
    assert torch.equal(append_ones(x)[..., :3], x)
    assert torch.equal(append_ones(x)[..., 3], torch.ones(2, 5))
    assert append_ones(torch.empty(0, 2)).shape == (0, 3)


def test_divide_by_mass():
    sums = torch.tensor([[2.0, 4.0, 2.0], [0.0, 0.0, 0.0], [3e-18, 0.0, 1e-18]])
    torch.testing.assert_close(
        divide_by_mass(sums), torch.tensor([[1.0, 2.0], [0.0, 0.0], [3.0, 0.0]]), rtol=0.02, atol=0
    )


def test_gradient_is_finite_without_mass():
    sums = torch.zeros(1, 3, requires_grad=True)
    divide_by_mass(sums).sum().backward()
    assert sums.grad.abs().max() <= 1


@pytest.mark.parametrize("normalize", ["before", "after", "symmetric"])
def test_normalizers_match_the_dense_kernel(normalize):
    torch.manual_seed(0)
    lattice = Lattice.build(4 * torch.rand(30, 2, dtype=torch.float64))

    def kernel(y):
        return lattice.slice(lattice.blur(lattice.splat(y)))

    x = torch.rand(30, 2, dtype=torch.float64)
    matrix = kernel(torch.eye(30, dtype=torch.float64))
    norm = matrix.sum(1, keepdim=True)
    expected = {
        "before": matrix @ (x / norm),
        "after": (matrix @ x) / norm,
        "symmetric": norm**-0.5 * (matrix @ (norm**-0.5 * x)),
    }[normalize]
    found = normalizers(normalize, lattice, None, x.dtype, "blur", lattice.blur)
    torch.testing.assert_close(normalized(kernel, x, found), expected)
    if normalize == "after":
        torch.testing.assert_close(normalized_after(kernel, x), expected)
    if normalize == "symmetric":
        assert found[0] is found[1]


def test_no_normalization():
    lattice = Lattice.build(torch.rand(3, 2))
    assert normalizers(None, lattice, None, torch.float32, "blur", lattice.blur) == (None, None)


def test_points_without_response_give_zero():
    response = torch.tensor([[2.0], [0.0]])
    assert factors("after", lambda: response)[1].tolist() == [[0.5], [0.0]]
