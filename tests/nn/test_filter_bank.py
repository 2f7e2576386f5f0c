"""Shape and initialization of filter banks."""

import pytest
import torch

from permutogeo import Lattice, nn
from permutogeo.nn import BilateralConv, LatticeUnpool
from permutogeo.ops import stencils

DOUBLE = torch.float64


def make(in_channels=4, out_channels=8, dim=3, init="kaiming", **options):
    return BilateralConv(in_channels, out_channels, dim, init=init, **options).double()


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({}, (7, 6, 12)),
        ({"radius": 2, "groups": 3}, (19, 2, 12)),
        ({"dim": 3, "stencil": "axis"}, (9, 6, 12)),
        ({"dim": 5}, (63, 6, 12)),
        ({"shared": True, "in_channels": 12}, (7,)),
    ],
)
def test_filter_shape(options, shape):
    layer = BilateralConv(**{"in_channels": 6, "out_channels": 12, "dim": 2, **options})
    assert layer.filter_weight.shape == shape


@pytest.mark.parametrize(
    ("dim", "radius", "stencil"), [(2, 1, "full"), (3, 2, "full"), (3, 1, "axis")]
)
@pytest.mark.parametrize("residual", [False, True])
def test_starts_as_the_gaussian(cloud, dim, radius, stencil, residual):
    data = cloud(dim=dim)
    gaussian = stencils.gaussian(dim, radius, stencil)
    options = {"radius": radius, "stencil": stencil, "residual_to_gaussian": residual}
    smooth = data.lattice.convolve(
        data.lattice.splat(data.x), gaussian, radius, stencil=stencil, shared=True
    )
    expected = data.lattice.slice(smooth)
    layer = make(4, 4, dim, "gaussian", shared=True, **options)
    layer.reset_parameters()  # in float64
    assert torch.equal(layer.effective_filter(), gaussian)
    assert torch.equal(layer(data.x, data.feature), expected)
    assert layer.filter_weight.any() != residual
    layer = make(4, 4, dim, "gaussian", groups=2, **options)
    layer.reset_parameters()
    torch.testing.assert_close(layer(data.x, data.feature), expected, rtol=1e-13, atol=1e-13)


def test_starts_as_the_gaussian_with_other_sizes(cloud):
    data = cloud()
    gaussian = stencils.gaussian(3, 1).view(-1, 1)
    few = make(4, 2, init="gaussian")
    few.reset_parameters()
    assert torch.equal(few.filter_weight, gaussian.unsqueeze(-1) * torch.eye(4, 2, dtype=DOUBLE))
    for residual in (False, True):
        many = make(4, 6, init="gaussian", residual_to_gaussian=residual)
        many.reset_parameters()
        weight = many.effective_filter()
        assert torch.equal(weight[..., :4], gaussian.unsqueeze(-1) * torch.eye(4, dtype=DOUBLE))
        # The rest are Gaussians too, of mixed channels: not dead behind a ReLU.
        assert weight[..., 4:].abs().min() > 0
        torch.testing.assert_close(weight[..., 4:], gaussian.unsqueeze(-1) * weight[:1, :, 4:])
    grouped = make(4, 12, init="gaussian", groups=2)
    assert (grouped(data.x, data.feature).abs().amax(0) > 0).all()


def test_radius_two_is_the_blur_where_neighbors_exist():
    side = torch.arange(0, 10, 0.25, dtype=DOUBLE)
    lattice = Lattice.build(torch.cartesian_prod(side, side))
    inside = (lattice.neighbors(2) >= 0).all(1)
    assert inside.sum() > 20
    values = torch.randn(lattice.num_vertices, 1, dtype=DOUBLE)
    layer = make(1, 1, 2, "gaussian", radius=2)
    layer.reset_parameters()
    out = layer.convolve(lattice, values)
    torch.testing.assert_close(out[inside], lattice.blur(values)[inside], rtol=1e-12, atol=1e-12)


def test_kaiming_keeps_the_scale():
    layer = BilateralConv(64, 64, 3, init="kaiming", groups=2)
    assert layer.filter_weight.std().item() == pytest.approx((2 / (15 * 32)) ** 0.5, rel=0.02)
    layer = BilateralConv(64, 64, 3, init="kaiming", groups=2, normalize="after")
    assert layer.filter_weight.std().item() == pytest.approx((2 / 32) ** 0.5, rel=0.02)


def test_lazy_starts_as_the_gaussian(cloud):
    data = cloud(dtype=torch.float32)
    torch.manual_seed(1)
    lazy = nn.BilateralConv(-1, 4, 3)
    lazy(data.x, data.feature)
    assert torch.equal(lazy.filter_weight, nn.BilateralConv(4, 4, 3).filter_weight)


def test_learned_keeps_the_scale(cloud):
    """A fine vertex reads two coarse ones; the filter starts accordingly."""
    lattice = cloud(200).lattice
    coarse, at = lattice.coarsen()
    values = torch.randn(coarse.num_vertices, 64, dtype=DOUBLE)
    out = LatticeUnpool(64, 64, 3, "learned").double()(values, lattice, coarse, at)
    assert 1.0 < out.std().item() < 1.6


def test_too_many_taps():
    with pytest.raises(ValueError, match=r"^BilateralConv: .*use stencil='axis'"):
        BilateralConv(4, 8, dim=20)
