"""LatticeNet: the defaults of the paper."""

import torch

from permutogeo.models import LatticeNet
from permutogeo.nn import LatticeSlice, PointNetSplat


def test_layers_of_the_paper():
    model = LatticeNet(4, 8, 5, dim=3)
    assert isinstance(model.embed, PointNetSplat) and isinstance(model.read, LatticeSlice)
    assert model.depth == 3 and all(len(block.convs) == 2 for block in model.downs)
    assert all("aggr='learned'" in str(pool) for pool in model.pools)


def test_sees_positions_within_a_cell():
    """Without values, predictions still differ between points of one simplex."""
    model = LatticeNet(1, 8, 2, dim=2).eval()
    feature = torch.rand(50, 2) * 3
    out = model(torch.ones(50, 1), feature)
    assert out.std(0).min() > 1e-4
