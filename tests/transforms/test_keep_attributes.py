"""Selection of attributes."""

import pytest
import torch
from torch_geometric.data import Data

from permutogeo.transforms import (
    KeepAttributes,
)

FACE = torch.tensor([[0], [1], [2]])


def make_cloud():
    data = Data(pos=torch.arange(30.0).reshape(10, 3), x=torch.arange(10.0)[:, None], face=FACE)
    return data.update({"face_label": torch.zeros(1), "height": 4, "y": torch.tensor([1])})


def test_keep_attributes():
    out = KeepAttributes("x", "height")(make_cloud())
    assert set(out.to_dict()) == {"x", "height"}
    with pytest.raises(ValueError, match="Expected 'feature' in data"):
        KeepAttributes("feature")(make_cloud())
    with pytest.raises(ValueError, match="at least one name"):
        KeepAttributes()
