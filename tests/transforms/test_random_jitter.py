import pytest
import torch
from torch_geometric.data import Data

from permutogeo.transforms import RandomJitter


def test_moments():
    data = Data(pos=torch.zeros(20000, 3), normal=torch.tensor([[0.0, 0, 1]]).repeat(20000, 1))
    out = RandomJitter(0.3, normal_std=0.1)(data)
    assert float(out.pos.std()) == pytest.approx(0.3, rel=0.02)
    torch.testing.assert_close(out.normal.norm(dim=1), torch.ones(20000))
    assert float(out.normal[:, :2].std()) == pytest.approx(0.1, rel=0.05)
    assert torch.equal(RandomJitter(0.3)(data).normal, data.normal)


def test_errors():
    with pytest.raises(ValueError, match=r"a finite 'std' >= 0 \(got -1\)"):
        RandomJitter(-1)
