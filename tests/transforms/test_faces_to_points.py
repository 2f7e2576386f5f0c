"""Faces as points."""

import torch

from permutogeo.transforms import (
    FaceNormals,
    FacesToPoints,
)


def test_faces_to_points(box):
    box.x, box.label = torch.rand(8, 2).double(), torch.arange(8)
    box.face_label, box.name_of, box.y = torch.arange(12), "box", torch.tensor([1])
    out = FacesToPoints()(FaceNormals()(box))
    assert set(out.to_dict()) == {"pos", "normal", "area", "x", "label", "name_of", "y"}
    assert out.num_nodes == 12 and out.label.tolist() == list(range(12))
    assert torch.equal(out.x, box.x[box.face].mean(0))
    faces = FaceNormals()(box)
    assert torch.equal(out.normal, faces.face_normal) and torch.equal(out.pos, faces.face_center)
