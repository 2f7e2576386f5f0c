"""Face normals, centroids and areas."""

import pytest
import torch
import trimesh
from torch_geometric.data import Data

from permutogeo.transforms import (
    FaceNormals,
    FacesToPoints,
    NormalNoise,
    SmoothNormals,
    VertexNormals,
)


def test_face_normals(box):
    theirs = trimesh.creation.box(extents=(1, 2, 3))
    out = FaceNormals()(box)
    assert torch.allclose(out.face_normal, torch.tensor(theirs.face_normals.copy()))
    assert torch.allclose(out.face_center, torch.tensor(theirs.triangles_center.copy()))
    assert torch.allclose(out.face_area, torch.tensor(theirs.area_faces.copy()))


def test_degenerate_faces_have_no_normal():
    data = Data(pos=torch.rand(3, 3), face=torch.tensor([[0, 0], [0, 1], [1, 1]]))
    out = VertexNormals("angle")(FaceNormals()(data))
    assert (out.face_normal == 0).all() and (out.face_area == 0).all() and (out.normal == 0).all()
    assert torch.isfinite(SmoothNormals(2)(data).pos).all()
    assert torch.isfinite(NormalNoise()(data).pos).all()


@pytest.mark.parametrize("count", [0, 3])
def test_no_faces(count):
    data = Data(pos=torch.rand(count, 3), face=torch.zeros(3, 0, dtype=torch.long))
    for transform in (NormalNoise(0.3), SmoothNormals(2), FaceNormals(), VertexNormals()):
        assert torch.equal(transform(data).pos, data.pos)
    assert FaceNormals()(data).face_normal.shape == (0, 3)
    assert torch.equal(VertexNormals()(data).normal, torch.zeros(count, 3))
    assert FacesToPoints()(data).num_nodes == 0
