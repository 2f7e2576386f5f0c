"""Random subsets of points."""

import pytest
import torch
from torch_geometric.data import Data

from permutogeo.transforms import (
    RandomSubsample,
)

FACE = torch.tensor([[0], [1], [2]])


def make_cloud():
    data = Data(pos=torch.arange(30.0).reshape(10, 3), x=torch.arange(10.0)[:, None], face=FACE)
    return data.update({"face_label": torch.zeros(1), "height": 4, "y": torch.tensor([1])})


def test_subsample():
    data = make_cloud()
    out = RandomSubsample(0.3)(data)
    assert set(out.to_dict()) == {"pos", "x", "height", "y"}
    assert out.pos.shape == (3, 3) and out.y.tolist() == [1]
    rows = out.x.flatten().long()
    assert torch.equal(out.pos, data.pos[rows]) and (rows.diff() > 0).all()
    assert RandomSubsample(count=10)(data).x.tolist() == data.x.tolist()
    assert RandomSubsample(count=25, replace=True)(data).num_nodes == 25
    assert RandomSubsample(fraction=0.001)(data).num_nodes == 1
    seeded = RandomSubsample(0.5, seed=1)
    assert torch.equal(seeded(data).x, seeded(data).x)


def test_subsample_of_a_bare_graph():
    data = Data(edge_index=torch.zeros(2, 3, dtype=torch.long), num_nodes=8)
    out = RandomSubsample(count=5)(data)
    assert out.num_nodes == 5 and "edge_index" not in out


def test_subsample_errors():
    for arguments in ({}, {"fraction": 0.5, "count": 3}):
        with pytest.raises(ValueError, match="'fraction' or 'count'"):
            RandomSubsample(**arguments)
    for fraction in (0.0, 1.1, float("nan")):
        with pytest.raises(ValueError, match=r"'fraction' in \(0, 1\]"):
            RandomSubsample(fraction)
    with pytest.raises(ValueError, match="'count' >= 1"):
        RandomSubsample(count=0)
    with pytest.raises(ValueError, match=r"at least 11 points \(got 10\)"):
        RandomSubsample(count=11)(make_cloud())


def test_subsample_is_uniform():
    data = Data(x=torch.arange(6)[:, None])
    counts = sum(RandomSubsample(0.5)(data).x.flatten().bincount(minlength=6) for _ in range(2000))
    assert (counts - 1000).abs().max() < 150
