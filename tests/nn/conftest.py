from types import SimpleNamespace

import pytest
import torch

from permutogeo import Lattice
from permutogeo.ops import stencils
from permutogeo.testing.reference import ReferenceLattice

DOUBLE = torch.float64


def make_cloud(count=40, dim=3, channels=4, graphs=None, dtype=DOUBLE, spread=2.0):
    """Points with values, and some other points in the same region."""
    x = torch.randn(count, channels, dtype=dtype)
    feature = torch.randn(count, dim, dtype=dtype) * spread
    other = torch.randn(count // 2, dim, dtype=dtype) * spread
    batch = None if graphs is None else torch.arange(count) % graphs
    lattice = Lattice.build(feature, batch)
    return SimpleNamespace(
        x=x,
        feature=feature,
        other=other,
        batch=batch,
        lattice=lattice,
        values=torch.randn(lattice.num_vertices, channels, dtype=dtype),
    )


@pytest.fixture
def cloud():
    return make_cloud


def run(layer, arguments, leaves):
    """Results and gradients of a call, all as one list."""
    out = layer(*arguments)
    out = out[0] if isinstance(out, tuple) else out
    leaves = [*leaves, *(p for p in layer.parameters() if p.requires_grad)]
    weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    total = (out * weight).sum()
    return [out, *torch.autograd.grad(total, leaves, retain_graph=True, allow_unused=True)]


@pytest.fixture
def same_routes():
    """Assert that kernels and messages agree, in results and gradients."""

    def check(layer, *arguments, leaves=()):
        assert layer.fused
        fused = run(layer, arguments, leaves)
        layer.fuse = False
        assert not layer.fused
        unfused = run(layer, arguments, leaves)
        layer.fuse = True
        assert fused[0].abs().max() > 0
        torch.testing.assert_close(unfused, fused, rtol=1e-10, atol=1e-10)

    return check


@pytest.fixture
def three_calls():
    """Three clouds as one batch: the arguments of one call, and of three."""

    def make(dim=2, count=50):
        clouds = [make_cloud(count + i, dim) for i in range(3)]
        sizes = torch.tensor([len(each.x) for each in clouds])
        batch = torch.arange(3).repeat_interleave(sizes)
        together = SimpleNamespace(
            x=torch.cat([each.x for each in clouds]),
            feature=torch.cat([each.feature for each in clouds]),
            batch=batch,
        )
        together.lattice = Lattice.build(together.feature, batch)
        return together, clouds

    return make


def _dense_kernel(feature, batch, normalize, radius=None, filter_weight=None):
    """The kernel as a matrix: blur, or a filter on a stencil."""
    lattice = ReferenceLattice(feature, batch)
    if radius is None:
        gaussian = kernel = lattice.slice_matrix() @ lattice.blur_matrix() @ lattice.splat_matrix()
    else:
        offsets = stencils.stencil(feature.shape[1], radius).numpy()
        splat = lattice.splat_matrix()

        def matrix(taps):
            return lattice.slice(lattice.convolve_shared(splat, taps, offsets))

        gaussian = matrix(stencils.gaussian(feature.shape[1], radius).numpy())
        kernel = gaussian if filter_weight is None else matrix(filter_weight)
    n = gaussian.sum(1) + 1e-20
    before, after = {None: (0, 0), "before": (1, 0), "after": (0, 1), "symmetric": (0.5, 0.5)}[
        normalize
    ]
    return kernel * n[:, None] ** -after * n[None, :] ** -before


@pytest.fixture
def dense_kernel():
    return _dense_kernel


@pytest.fixture
def points():
    unary = 2 * torch.randn(50, 3, dtype=DOUBLE)
    features = [torch.rand(50, 2, dtype=DOUBLE) * 4, torch.rand(50, 3, dtype=DOUBLE) * 3]
    return unary, features, torch.arange(50) % 2
