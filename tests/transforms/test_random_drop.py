import pytest
import torch
from torch_geometric.data import Data

from permutogeo.transforms import RandomDrop


def test_attributes_go_along():
    data = Data(pos=torch.rand(100, 3), face=torch.zeros(3, 5, dtype=torch.long))
    data.normal = data.pos * 2
    sizes = set()
    for seed in range(30):
        out = RandomDrop(0.5, seed=seed)(data)
        assert 50 <= out.num_nodes <= 100 and "face" not in out
        torch.testing.assert_close(out.normal, out.pos * 2)
        sizes.add(out.num_nodes)
    assert len(sizes) > 10


def test_one_point_is_left():
    for seed in range(20):
        assert RandomDrop(1.0, seed=seed)(Data(pos=torch.rand(3, 3))).num_nodes >= 1
    assert RandomDrop()(Data(pos=torch.rand(0, 3))).num_nodes == 0


def test_errors():
    with pytest.raises(ValueError, match=r"'most' from 0 to 1 \(got 1.5\)"):
        RandomDrop(1.5)
