"""What files hold besides geometry survives reading and writing."""

import numpy as np
import pytest
import torch
import trimesh

from permutogeo.data import from_mesh, from_point_cloud, to_mesh, to_point_cloud
from permutogeo.data._open3d import load_open3d

SQUARE = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 2 0 0\n"
OBJ = (
    "mtllib scan.mtl\n" + SQUARE + "vt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\n"
    "o left one\ns 1\nf 1 2 5\nusemtl skin\ng front\nf 1/1 2/2 3/3 4/4\n"
    "usemtl cloth # a comment\ns off\nf 2/1 5/2 3/4\nusemtl skin\nf 3/1 4/2 1/3\n"
)


def assert_same(back, data):
    assert set(back.to_dict()) == set(data.to_dict())
    for name, value in data.to_dict().items():
        same = torch.equal if torch.is_tensor(value) else list.__eq__
        assert same(back[name], value), name


def test_obj_keeps_materials_and_groups(tmp_path):
    path = tmp_path / "a.obj"
    path.write_text(OBJ)
    data = from_mesh(path)
    assert data.material_library == ["scan.mtl"]
    assert data.material_names == ["skin", "cloth"] and data.object_names == ["left one"]
    # The quadrangle is two triangles; the first face comes before any material.
    assert data.face_material.tolist() == [-1, 0, 0, 1, 0]
    assert data.face_group.tolist() == [-1, 0, 0, 0, 0]
    assert data.face_smoothing.tolist() == [0, 0, 0, 1, 1]
    assert data.smoothing_names == ["1", "off"]
    # A face without texture coordinates takes none from the others.
    assert data.face_uv[:, 0].tolist() == [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]]
    assert data.face_uv[1:, 1].tolist() == [[1, 0], [1, 1], [1, 0], [1, 0]]
    assert_same(from_mesh(to_mesh(data, tmp_path / "b.obj")), data)


def test_materials_are_where_other_programs_look(tmp_path):
    """trimesh splits a file by material: each part has the area that it has in the first file."""
    (tmp_path / "scan.mtl").write_text("newmtl skin\nKd 1 0 0\nnewmtl cloth\nKd 0 1 0\n")
    (tmp_path / "a.obj").write_text(OBJ.replace("f 1 2 5\n", "").replace(" # a comment", ""))
    to_mesh(from_mesh(tmp_path / "a.obj"), tmp_path / "b.obj")
    areas = []
    for name in ("a.obj", "b.obj"):
        scene = trimesh.load_scene(tmp_path / name, group_material=True)
        parts = scene.geometry.values()
        areas.append({part.visual.material.name: part.area for part in parts})
    assert areas[1] == pytest.approx(areas[0])
    assert areas[1] == pytest.approx({"skin": 1.5, "cloth": 0.5})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_text_has_just_enough_digits(tmp_path, dtype):
    pos = torch.tensor([[0.1, 1e-30, 3.0], [1 / 3, -2e20, 0.0], [0.0, 1.0, 7e-7]], dtype=dtype)
    data = from_mesh(pos, torch.tensor([[0], [1], [2]]), dtype=dtype)
    for suffix in ("obj", "off"):
        path = to_mesh(data, tmp_path / f"a.{suffix}")
        assert "0.1 1e-30 3.0\n" in path.read_text()
        assert torch.equal(from_mesh(path, dtype=dtype).pos, pos)


def test_ply_keeps_texture_files_and_coordinates_of_polygons(tmp_path):
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


def test_off_keeps_colors(tmp_path):
    sphere = trimesh.creation.icosphere(1)
    data = from_mesh(np.asarray(sphere.vertices), np.asarray(sphere.faces))
    for x in (
        torch.randint(256, (42, 3)) / torch.tensor(255.0),
        torch.rand(42, 3),
        torch.randint(3, (42, 3)) / torch.tensor(255.0),
    ):
        data.x, data.face_color = x, x.repeat(2, 1)[:80]
        assert_same(from_mesh(to_mesh(data, tmp_path / "a.off")), data)
    data.x = torch.randint(256, (42, 3)) / torch.tensor(255.0)
    del data.face_color
    theirs = load_open3d().io.read_triangle_mesh(str(to_mesh(data, tmp_path / "a.off")))
    np.testing.assert_allclose(np.asarray(theirs.vertex_colors), data.x.numpy(), atol=1e-6)


def test_stl_keeps_the_bytes_of_colors(tmp_path):
    sphere = trimesh.creation.icosphere(1)
    data = from_mesh(np.asarray(sphere.vertices), np.asarray(sphere.faces))
    assert "face_attribute" not in from_mesh(to_mesh(data, tmp_path / "a.stl"))
    data.face_attribute = torch.randint(2**16, (80,))
    back = from_mesh(to_mesh(data, tmp_path / "a.stl"))
    assert torch.equal(back.face_attribute, data.face_attribute)
    assert len(trimesh.load(tmp_path / "a.stl").faces) == 80


@pytest.mark.parametrize("suffix", ["obj", "off"])
def test_clouds_in_mesh_formats(tmp_path, suffix):
    data = from_point_cloud(torch.rand(20, 3), x=torch.randint(256, (20, 3)) / torch.tensor(255.0))
    path = to_point_cloud(data, tmp_path / f"a.{suffix}")
    assert_same(from_point_cloud(path), data)
    assert_same(from_mesh(path, check=False), data)
    flat = to_point_cloud(from_point_cloud(torch.rand(5, 2)), path)
    assert from_point_cloud(flat).pos[:, 2].tolist() == [0] * 5
    with pytest.raises(ValueError, match="at least one face"):
        from_mesh(path)


def test_damage_is_read_where_it_is_asked_for(tmp_path):
    (tmp_path / "a.obj").write_text("v 0 0 nan\nv 1 0 0\nv 0 1 0\nf 1 2 3\nf 1 2 9\nf -9 0 1\n")
    data = from_mesh(tmp_path / "a.obj", check=False)
    assert data.pos.isnan().sum() == 1
    assert data.face.t().tolist() == [[0, 1, 2], [0, 1, 8], [-6, -1, 0]]
    (tmp_path / "a.xyz").write_text("0 0 inf\n1 2 3\n")
    assert from_point_cloud(tmp_path / "a.xyz", check=False).pos.isinf().sum() == 1
    (tmp_path / "a.ply").write_text(
        "ply\nformat ascii 1.0\nelement vertex 0\nproperty float x\n"
        "property float y\nproperty float z\nend_header\n"
    )
    with pytest.raises(ValueError, match="at least one point"):
        from_mesh(tmp_path / "a.ply", check=False)
