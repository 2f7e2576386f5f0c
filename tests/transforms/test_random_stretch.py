import pytest
import torch
from torch_geometric.data import Data

from permutogeo.transforms import RandomStretch, VertexNormals

FACE = torch.tensor([[0], [1], [2]])


def test_normals_stay_perpendicular():
    data = VertexNormals()(Data(pos=torch.rand(3, 3, dtype=torch.float64), face=FACE))
    out = RandomStretch(0.2, 5.0)(data)
    expected = VertexNormals()(Data(pos=out.pos, face=FACE))
    torch.testing.assert_close(out.normal, expected.normal)


def test_factors():
    ones = Data(pos=torch.ones(1, 3))
    drawn = torch.cat([RandomStretch(0.5, 2.0, seed=seed)(ones).pos for seed in range(200)])
    assert drawn.min() >= 0.5 and drawn.max() <= 2.0
    assert drawn.log().mean().abs() < 0.1


def test_errors():
    with pytest.raises(ValueError, match=r"0 < low <= high \(got 2 and 1\)"):
        RandomStretch(2, 1)
