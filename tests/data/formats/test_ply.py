"""PLY files: attributes, byte orders, other programs."""

import numpy as np
import pytest
import torch
import trimesh

from permutogeo.data import from_mesh, to_mesh
from permutogeo.data.open3d_loader import load_open3d

pytestmark = pytest.mark.filterwarnings("ignore:.*polygons were split")

SQUARE = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 2 0 0\n"


def test_ply_keeps_everything(tmp_path, mesh, assert_same):
    before = mesh.clone()
    back = from_mesh(to_mesh(mesh, tmp_path / "a.ply"))
    assert_same(back, mesh, mesh.to_dict())
    assert_same(mesh, before, before.to_dict())


def test_ply_is_the_same_for_other_programs(tmp_path, mesh):
    del mesh.uv  # for trimesh a mesh has a texture or colors
    path = to_mesh(mesh, tmp_path / "a.ply")
    theirs = trimesh.load(path, process=False)
    assert np.array_equal(theirs.faces, mesh.face.t().numpy())
    colors = theirs.visual.vertex_colors[:, :3] / np.float32(255)
    assert np.allclose(colors, mesh.x.numpy())
    o3d = load_open3d()
    legacy = o3d.io.read_triangle_mesh(str(path))
    assert np.allclose(np.asarray(legacy.vertices), mesh.pos.numpy())
    assert np.allclose(np.asarray(legacy.vertex_normals), mesh.normal.numpy(), atol=1e-6)
    assert np.allclose(np.asarray(legacy.vertex_colors), mesh.x.numpy())


def test_ply_keeps_values_that_are_no_bytes(tmp_path, mesh):
    for x in (torch.rand(mesh.num_nodes, 3), torch.randn(mesh.num_nodes, 3), mesh.pos[:, :1]):
        mesh.x = x
        assert torch.equal(from_mesh(to_mesh(mesh, tmp_path / "a.ply")).x, x)


@pytest.mark.parametrize("encoding", ["ascii", "binary_little_endian"])
def test_ply_of_trimesh(tmp_path, mesh, encoding):
    del mesh.y  # trimesh would write two properties of this name
    text = to_mesh(mesh).export(
        file_type="ply", encoding=encoding.partition("_")[0], vertex_normal=True
    )
    (tmp_path / "a.ply").write_bytes(text)
    back = from_mesh(tmp_path / "a.ply")
    tolerance = {"rtol": 0, "atol": 1e-6}
    torch.testing.assert_close(back.pos, mesh.pos, **tolerance)
    torch.testing.assert_close(back.x, mesh.x, **tolerance)
    torch.testing.assert_close(back.descriptor, mesh.descriptor, **tolerance)
    torch.testing.assert_close(back.quality, mesh.quality, **tolerance)
    assert torch.equal(back.face, mesh.face)


def test_ply_big_endian_with_mixed_polygons(tmp_path):
    header = (
        b"ply\nformat binary_big_endian 1.0\nelement vertex 5\nproperty double x\n"
        b"property double y\nproperty double z\nelement face 2\n"
        b"property list uchar uint vertex_index\nproperty uchar quality\nend_header\n"
    )
    vertices = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1]], ">f8")
    faces = b"\x04" + np.array([0, 1, 2, 3], ">u4").tobytes() + b"\x07"
    faces += b"\x03" + np.array([0, 1, 4], ">u4").tobytes() + b"\x09"
    (tmp_path / "a.ply").write_bytes(header + vertices.tobytes() + faces)
    data = from_mesh(tmp_path / "a.ply", dtype=torch.float64)
    assert data.pos.dtype == torch.float64 and data.pos.tolist() == vertices.tolist()
    assert data.face.t().tolist() == [[0, 1, 2], [0, 2, 3], [0, 1, 4]]
    assert data.face_quality.tolist() == [7, 7, 9]


def test_ply_keeps_texture_files_and_coordinates_of_polygons(tmp_path, assert_same):
    header = (
        "ply\nformat ascii 1.0\ncomment made by hand\ncomment TextureFile skin 1.png\n"
        "comment TextureFile b.png\nelement vertex 5\n"
        "property float x\nproperty float y\nproperty float z\nelement face 3\n"
        "property list uchar int vertex_indices\nproperty list uchar float texcoord\n"
        "property uchar texnumber\nend_header\n"
    )
    vertices = SQUARE.replace("v ", "")
    quad = "4 0 1 2 3 8 0 0 1 0 1 1 0 1 1\n"
    (tmp_path / "a.ply").write_text(
        header + vertices + quad + "3 1 4 2 6 .5 0 1 0 .5 1 0\n3 0 1 4 0 1\n"
    )
    data = from_mesh(tmp_path / "a.ply")
    assert data.texture_files == ["skin 1.png", "b.png"]
    assert data.face_texnumber.tolist() == [1, 1, 0, 1]
    assert data.face_uv.tolist() == [
        [[0, 0], [1, 0], [1, 1]],
        [[0, 0], [1, 1], [0, 1]],
        [[0.5, 0], [1, 0], [0.5, 1]],
        [[0, 0], [0, 0], [0, 0]],
    ]
    assert_same(from_mesh(to_mesh(data, tmp_path / "b.ply")), data)


def test_ply_keeps_types_and_large_integers(tmp_path):
    data = from_mesh(torch.rand(3, 3).double(), torch.tensor([[0], [1], [2]]), dtype=None)
    data.id = torch.tensor([0, 2**32 - 1, 5])
    data.small = torch.tensor([0.5, float("nan"), 2.0])
    back = from_mesh(to_mesh(data, tmp_path / "a.ply"), dtype=None)
    assert torch.equal(back.pos, data.pos) and back.pos.dtype == torch.float64
    assert torch.equal(back.id, data.id) and back.small.dtype == torch.float32
    data.id[0] = -1
    with pytest.raises(ValueError, match=r"'id' to fit 32-bit integers \(got 4294967295\)"):
        to_mesh(data, tmp_path / "a.ply")
