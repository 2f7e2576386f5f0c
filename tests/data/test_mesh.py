"""Meshes between files, objects and ``Data``."""

import ast
import subprocess
import sys

import numpy as np
import pytest
import torch

from permutogeo.data import from_mesh, to_mesh
from permutogeo.data._open3d import load_open3d

trimesh = pytest.importorskip("trimesh")


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


@pytest.mark.parametrize(
    ("suffix", "names"),
    [
        ("obj", ("pos", "face", "x", "normal", "uv")),
        ("off", ("pos", "face", "x", "face_color")),
    ],
)
def test_text_formats(tmp_path, mesh, suffix, names, assert_same):
    assert_same(from_mesh(to_mesh(mesh, tmp_path / f"a.{suffix}")), mesh, names)


def test_glb(tmp_path, mesh, assert_same):
    back = from_mesh(to_mesh(mesh, tmp_path / "a.glb"))
    assert_same(back, mesh, ("pos", "face", "x", "normal"))


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


def test_obj_keeps_order_seams_and_unused_vertices(tmp_path, assert_same):
    (tmp_path / "a.obj").write_text(
        "v 5 5 5\nv 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0 # comment\n"
        "vt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\nvt .5 .5\n"
        "f 2/1 3/2 4/3\nf -4/5 -2/3 \\\n-1/4\n"
    )
    data = from_mesh(tmp_path / "a.obj")
    assert data.pos[0].tolist() == [5, 5, 5] and data.num_nodes == 5
    assert data.face.t().tolist() == [[1, 2, 3], [1, 3, 4]]
    assert data.face_uv.tolist() == [[[0, 0], [1, 0], [1, 1]], [[0.5, 0.5], [1, 1], [0, 1]]]
    for suffix in ("obj", "ply"):
        back = from_mesh(to_mesh(data, tmp_path / f"b.{suffix}"))
        assert_same(back, data, ("pos", "face", "face_uv"))


@pytest.mark.parametrize(
    "head", ["OFF\n4 2 0\n", "OFF 4 2 0\n", "OFF4 2 0\n", "# a\nOFF\n\n4 2 0\n"]
)
def test_off_headers(tmp_path, head):
    (tmp_path / "a.off").write_text(
        head + "0 0 0\n1 0 0\n1 1 0\n0 1 0\n4 0 1 2 3\n3 0 1 2 255 0 0\n"
    )
    assert from_mesh(tmp_path / "a.off").face.t().tolist() == [[0, 1, 2], [0, 2, 3], [0, 1, 2]]


@pytest.mark.parametrize("kind", ["trimesh", "open3d_tensor"])
def test_objects_keep_everything(mesh, kind, assert_same):
    back = from_mesh(to_mesh(mesh, kind=kind))
    assert_same(back, mesh, mesh.to_dict())
    mesh.x = torch.randn(mesh.num_nodes, 2)
    assert_same(from_mesh(to_mesh(mesh, kind=kind)), mesh, mesh.to_dict())


def test_textured_trimesh(mesh, assert_same):
    del mesh.x
    theirs = to_mesh(mesh)
    assert theirs.visual.kind == "texture"
    assert_same(from_mesh(theirs), mesh, mesh.to_dict())


def test_legacy_open3d(mesh, assert_same):
    theirs = to_mesh(mesh, kind="open3d")
    assert (theirs.has_vertex_colors(), theirs.has_triangle_uvs()) == (True, True)
    back = from_mesh(theirs)
    mesh.face_uv = mesh.uv[mesh.face.t()]
    assert_same(back, mesh, ("pos", "face", "x", "normal", "face_uv"))
    back.pos.zero_()
    assert np.asarray(theirs.vertices).any()  # the memory is not shared


def test_plain_objects_have_no_invented_attributes():
    o3d = load_open3d()
    sphere = trimesh.creation.icosphere(subdivisions=1)
    legacy = o3d.geometry.TriangleMesh.create_sphere()
    for theirs in (sphere, legacy, o3d.t.geometry.TriangleMesh.from_legacy(legacy)):
        assert set(from_mesh(theirs).to_dict()) == {"pos", "face"}


def test_numpy_and_tensors(mesh, assert_same):
    vertices, faces = to_mesh(mesh, kind="numpy")
    assert vertices.shape == (162, 3) and faces.shape == (320, 3)
    for data in (from_mesh(vertices, faces), from_mesh(mesh.pos, mesh.face)):
        assert_same(data, mesh, ("pos", "face"))
    vertices[:] = 0
    assert mesh.pos.any()
    colors = np.full((162, 3), 255, np.uint8)
    assert (from_mesh(mesh.pos, mesh.face, x=colors).x == 1).all()


def test_large_coordinates_warn(mesh):
    vertices = mesh.pos.double().numpy() + 4e6
    with pytest.warns(UserWarning, match="float64"):
        from_mesh(vertices, mesh.face)
    data = from_mesh(vertices, mesh.face, dtype=torch.float64)
    assert np.array_equal(data.pos.numpy(), vertices)


def test_heavy_libraries_load_when_needed():
    code = "import sys, permutogeo.data, permutogeo.transforms; print(sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(run.stdout))
    assert not loaded & {"open3d", "trimesh", "skimage"}


@pytest.mark.parametrize("scale", [1, 255])
def test_colors_of_text_formats(tmp_path, scale):
    rows = [f"0 {i} {i * i} {scale} 0 {scale * 0.2}" for i in range(3)]
    (tmp_path / "a.obj").write_text("".join(f"v {row}\n" for row in rows) + "f 1 2 3\n")
    (tmp_path / "a.off").write_text("COFF\n3 1 0\n" + "\n".join(rows) + "\n3 0 1 2\n")
    for name in ("a.obj", "a.off"):
        torch.testing.assert_close(
            from_mesh(tmp_path / name).x, torch.tensor([[1.0, 0.0, 0.2]]).expand(3, 3)
        )


def test_values_that_are_no_colors_stay_out_of_obj(tmp_path, mesh):
    mesh.x = mesh.x * 300
    assert "x" not in from_mesh(to_mesh(mesh, tmp_path / "a.obj"))


def test_obj_with_faces_of_several_kinds(tmp_path):
    corners = "v\t0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nvt 0 0\nvn 0 0 1\n"
    lines = ("1 2 3", "1/1 2/1 3/1", "1//1 2//1 3//1", "1/1/1 2/1/1 3/1/1")
    for faces in (*([line] for line in lines), lines, [*lines, "1 2 3 4"]):
        text = corners + "".join(f"f {line}\n" for line in faces)
        (tmp_path / "a.obj").write_text(text)
        data = from_mesh(tmp_path / "a.obj")
        assert data.face[:, 0].tolist() == [0, 1, 2] and data.face.max() <= 3
        assert ("uv" in data) == all("1/1" in line for line in faces)
        assert ("normal" in data) == all("//" in line or line.count("/") == 6 for line in faces)
