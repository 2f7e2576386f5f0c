"""Displacements."""

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import Compose

from permutogeo.transforms import (
    Displacement,
    NormalNoise,
    SmoothNormals,
)


def test_displacements_lead_back(sphere):
    steps = [NormalNoise(0.3, keep="clean", seed=0), SmoothNormals(4, keep="noisy")]
    steps += [Displacement("noisy"), Displacement("clean", attr="y")]
    data = Compose(steps)(sphere)
    torch.testing.assert_close(data.pos + data.x, NormalNoise(0.3, seed=0)(sphere).pos)
    torch.testing.assert_close(data.pos + data.y, sphere.pos)
    flat = Data(pos=torch.rand(5, 2), other=torch.rand(5, 2))
    assert torch.equal(Displacement("other")(flat).x, flat.other - flat.pos)
    flat.other = flat.other[:4]
    with pytest.raises(ValueError, match=r"'other' of the shape of 'pos', \[5, 2\] \(got \[4, 2"):
        Displacement("other")(flat)
