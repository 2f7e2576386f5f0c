"""A cloud in UTM coordinates as LAS, LAZ and COPC."""

import pytest
import torch
from torch_geometric.data import Data

from permutogeo.data import from_point_cloud, to_point_cloud

pytest.importorskip("laspy")


@pytest.fixture
def survey():
    """4,000 points over 40 x 30 m, numbered."""
    generator = torch.Generator().manual_seed(0)
    pos = torch.rand(4000, 3, generator=generator, dtype=torch.float64)
    pos = pos * torch.tensor([40.0, 30.0, 2.0], dtype=torch.float64)
    pos = pos + torch.tensor([5e5, 5.4e6, 100.0], dtype=torch.float64)
    return Data(pos=pos, number=torch.arange(4000))


@pytest.fixture
def survey_file(survey, tmp_path):
    """Write it under a name, and return the path with the points as they are in the file."""

    def write(name="survey.laz"):
        path = to_point_cloud(survey, tmp_path / name)
        return path, from_point_cloud(path)

    return write
