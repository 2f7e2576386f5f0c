"""STL files: text, binary, attribute bytes."""

import numpy as np
import pytest
import torch
import trimesh

from permutogeo.data import from_mesh, to_mesh


@pytest.mark.parametrize("ascii_text", [False, True])
def test_stl(tmp_path, mesh, ascii_text):
    path = tmp_path / "a.stl"
    to_mesh(mesh, path)
    if ascii_text:
        path.write_text(trimesh.load(path).export(file_type="stl_ascii"))
    back = from_mesh(path)
    assert (back.num_nodes, back.face.size(1)) == (mesh.num_nodes, mesh.face.size(1))
    corners = mesh.pos[mesh.face]
    assert torch.equal(back.pos[back.face], corners) or ascii_text
    torch.testing.assert_close(back.pos[back.face], corners, rtol=0, atol=1e-6)


def test_stl_keeps_the_bytes_of_colors(tmp_path):
    sphere = trimesh.creation.icosphere(1)
    data = from_mesh(np.asarray(sphere.vertices), np.asarray(sphere.faces))
    assert "face_attribute" not in from_mesh(to_mesh(data, tmp_path / "a.stl"))
    data.face_attribute = torch.randint(2**16, (80,))
    back = from_mesh(to_mesh(data, tmp_path / "a.stl"))
    assert torch.equal(back.face_attribute, data.face_attribute)
    assert len(trimesh.load(tmp_path / "a.stl").faces) == 80
