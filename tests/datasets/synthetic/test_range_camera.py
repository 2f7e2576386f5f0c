"""The simulated range camera."""

import numpy as np
import pytest
import torch
import trimesh
from torch_geometric.data import Data

from permutogeo.data.geometry import face_geometry
from permutogeo.datasets.synthetic.range_camera import range_scan


def sphere():
    mesh = trimesh.creation.icosphere(4)
    face = torch.from_numpy(np.array(mesh.faces).T.copy()).long()
    return Data(pos=torch.from_numpy(np.array(mesh.vertices)).float(), face=face)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_scan_lies_on_the_side_that_is_seen(seed):
    scan = range_scan(sphere(), 2000, np.random.default_rng(seed))
    assert 1000 < scan.face.size(1) < 3000
    radius = scan.pos.norm(dim=1)
    torch.testing.assert_close(radius, torch.ones_like(radius), rtol=0, atol=5e-3)
    normal, center, _ = face_geometry(scan.pos.double(), scan.face)
    assert (normal @ scan.sight < 0).all(), "triangles face the camera"
    assert ((normal * center).sum(dim=1) > 0).all(), "and outward"
    assert scan.face.unique().tolist() == list(range(len(scan.pos)))


def test_a_point_of_a_surface_is_no_surface():
    point = Data(pos=torch.zeros(3, 3), face=torch.tensor([[0], [1], [2]]))
    with pytest.raises(ValueError, match="a surface that a camera sees"):
        range_scan(point, 100, np.random.default_rng(0))
