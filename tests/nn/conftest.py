from types import SimpleNamespace

import pytest
import torch

from permutogeo import Lattice

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
