import pytest
import torch

from permutogeo import Lattice
from permutogeo.lattice.diagonal import blur_diagonal, convolve_diagonal
from permutogeo.ops import stencils

DOUBLE = torch.float64
TAPS = [(0.5, 1.0, 0.5), (0.25, 0.5, 1.0, 0.5, 0.25)]


def scattered(dim, count=60):
    """Points far enough apart that many vertices between them are absent."""
    return torch.rand(count, dim, dtype=DOUBLE) * (3 if dim > 1 else 20)


@pytest.mark.parametrize("taps", TAPS, ids=len)
@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_blur_is_that_of_the_dense_matrix(dim, taps):
    lattice = Lattice.build(scattered(dim), taps=taps)
    eye = torch.eye(lattice.num_points, dtype=DOUBLE)
    dense = lattice.slice(lattice.blur(lattice.splat(eye)))
    torch.testing.assert_close(blur_diagonal(lattice), dense.diagonal(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("stencil", ["full", "axis"])
@pytest.mark.parametrize(("dim", "radius"), [(1, 1), (2, 2), (3, 1), (3, 0), (4, 2)])
def test_convolution_is_that_of_the_dense_matrix(dim, radius, stencil):
    batch = torch.arange(60) % 2
    lattice = Lattice.build(scattered(dim), batch)
    taps = stencils.num_taps(dim, radius, stencil)
    filter_weight = torch.randn(taps, dtype=DOUBLE)  # not symmetric
    values = lattice.splat(torch.eye(60, dtype=DOUBLE))
    values = lattice.convolve(values, filter_weight, radius, stencil=stencil, shared=True)
    out = convolve_diagonal(lattice, filter_weight, radius, stencil)
    expected = lattice.slice(values).diagonal()
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)


def test_gradients():
    feature = scattered(2, 9).requires_grad_()
    filter_weight = torch.randn(7, dtype=DOUBLE, requires_grad=True)
    assert torch.autograd.gradcheck(lambda f: blur_diagonal(Lattice.build(f)), feature)
    assert torch.autograd.gradcheck(
        lambda f, w: convolve_diagonal(Lattice.build(f), w), (feature, filter_weight)
    )


def test_no_points():
    lattice = Lattice.build(torch.empty(0, 3))
    assert blur_diagonal(lattice).shape == (0,)
    assert convolve_diagonal(lattice, torch.ones(15)).shape == (0,)
