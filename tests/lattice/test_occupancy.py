"""Occupancy of a lattice, and warnings about scales at which points do not interact."""

import warnings

import pytest
import torch

from permutogeo import Lattice, ScaleWarning
from permutogeo.lattice import occupied_neighbors
from permutogeo.models import LatticeUNet
from permutogeo.nn import BilateralConv

x = torch.rand(200, 2)


def test_occupied_neighbors():
    """A chain of vertices has two of its four axis neighbors in 1-D, one at its ends."""
    lattice = Lattice.build(torch.linspace(0, 20, 200).unsqueeze(1))
    neighbors = lattice.neighbors(stencil="axis")[:, 1:]
    assert occupied_neighbors(lattice) == pytest.approx(float((neighbors >= 0).float().mean()))
    assert occupied_neighbors(lattice) > 0.9
    assert occupied_neighbors(Lattice.build(torch.zeros(0, 3))) == 0


@pytest.mark.parametrize(
    "make", [lambda: BilateralConv(2, 4, 3), lambda: LatticeUNet(2, 4, 3, dim=3)]
)
def test_extreme_scales_warn(make):
    feature = torch.rand(200, 3)
    expected = r"hardly any points share a vertex \(0.25 points per v"
    with pytest.warns(ScaleWarning, match=expected) as caught:
        make()(x, feature * 1e4)
    files = {warning.filename for warning in caught if warning.category is ScaleWarning}
    assert files == {__file__}  # the line that called the model, not one of torch
    with pytest.warns(ScaleWarning, match=r"all points of a graph share a vertex \(50 points"):
        make()(x, feature * 1e-3 + 0.2)
    with pytest.warns(ScaleWarning, match="all points of a graph share a vertex"):
        make()(x, (feature - 0.5) * 1e-3)  # in all simplices around the origin
    repeated = torch.cat([feature[:2], feature[:198]])
    with pytest.warns(ScaleWarning, match="hardly any points share a vertex"):
        make()(x, repeated * 1e4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ScaleWarning)
        make()(x, feature * 5)


def test_a_layer_warns_once():
    conv = BilateralConv(2, 4, 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for count in (100, 150, 200):
            conv(x[:count], torch.rand(count, 3) * 1e-3)
    assert len(caught) == 1


def test_graphs_are_judged_by_themselves():
    batch = torch.arange(2).repeat_interleave(100)
    feature = torch.rand(200, 3) * 1e-3 + 0.2
    with pytest.warns(ScaleWarning, match="graph share a vertex"):
        BilateralConv(2, 4, 3)(x, feature, batch)


def test_few_points_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error", ScaleWarning)
        BilateralConv(2, 4, 3)(x[:20], torch.rand(20, 3) * 1e4)
