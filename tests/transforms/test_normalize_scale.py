"""Normalization of position and scale."""

import pytest
import torch
from torch_geometric.data import Data

from permutogeo.transforms import (
    NormalizeScale,
)


@pytest.mark.parametrize("by", ["radius", "edge"])
def test_normalize_scale(by):
    data = Data(pos=torch.randn(20, 3) * 7 + 100, face=torch.randint(20, (3, 30)))
    transform = NormalizeScale(by)
    out = transform(data)
    assert out.pos.mean(0).abs().max() < 1e-4
    if by == "radius":
        assert out.pos.norm(dim=1).max() == pytest.approx(1.0)
    assert out.center.shape == (1, 3) and out.scale.shape == (1,)
    back = transform.inverse(out)
    torch.testing.assert_close(back.pos, data.pos)
    assert set(back.to_dict()) == {"pos", "face"} and "scale" in out


def test_normalize_one_place():
    out = NormalizeScale()(Data(pos=torch.ones(3, 2)))
    assert (out.pos == 0).all() and out.scale.item() == 1
    with pytest.raises(ValueError, match="at least one point"):
        NormalizeScale()(Data(pos=torch.ones(0, 2)))
    with pytest.raises(ValueError, match="'by' in radius, edge"):
        NormalizeScale("box")
