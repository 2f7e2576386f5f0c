"""Meshes between files, objects and ``Data``."""

import ast
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from permutogeo.data import from_mesh, to_mesh
from permutogeo.data._open3d import load_open3d

trimesh = pytest.importorskip("trimesh")


PLY = """ply
format ascii 1.0
element vertex {vertices}
property float x
property float y
property float z
element face {faces}
property list uchar int vertex_indices
end_header
0 0 0
1 0 {z}
0 1 0
0 0 1
3 0 1 {last}
3 0 2 3
"""
TWICE = PLY.replace("property float z\n", "property float z\nproperty float y\n")
GOOD = {"vertices": 4, "faces": 2, "z": 0, "last": 2}


@pytest.fixture
def mesh():
    sphere = trimesh.creation.icosphere(subdivisions=2)
    generator = torch.Generator().manual_seed(0)
    data = from_mesh(np.asarray(sphere.vertices), np.asarray(sphere.faces))
    count, faces = data.num_nodes, data.face.size(1)
    data.x = torch.randint(256, (count, 3), generator=generator) / torch.tensor(255.0)
    data.normal = data.pos.clone()
    data.uv = torch.rand(count, 2, generator=generator)
    data.y = torch.arange(count) % 7
    data.quality = torch.rand(count, generator=generator)
    data.descriptor = torch.rand(count, 5, generator=generator)
    data.alpha = torch.randint(255, (count,), generator=generator) / torch.tensor(255.0)
    data.face_label = torch.arange(faces) % 3
    data.face_color = torch.randint(256, (faces, 3), generator=generator) / torch.tensor(255.0)
    return data


def assert_same(back, data, names):
    assert set(back.to_dict()) == set(names)
    for name in names:
        assert back[name].dtype == data[name].dtype, name
        assert torch.equal(back[name], data[name]), name


def check_error(kind, *parts):
    return pytest.raises(kind, match="(?s)" + ".*".join(map(str, parts)))


def test_ply_keeps_everything(tmp_path, mesh):
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
def test_text_formats(tmp_path, mesh, suffix, names):
    assert_same(from_mesh(to_mesh(mesh, tmp_path / f"a.{suffix}")), mesh, names)


def test_glb(tmp_path, mesh):
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


def test_obj_keeps_order_seams_and_unused_vertices(tmp_path):
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
def test_objects_keep_everything(mesh, kind):
    back = from_mesh(to_mesh(mesh, kind=kind))
    assert_same(back, mesh, mesh.to_dict())
    mesh.x = torch.randn(mesh.num_nodes, 2)
    assert_same(from_mesh(to_mesh(mesh, kind=kind)), mesh, mesh.to_dict())


def test_textured_trimesh(mesh):
    del mesh.x
    theirs = to_mesh(mesh)
    assert theirs.visual.kind == "texture"
    assert_same(from_mesh(theirs), mesh, mesh.to_dict())


def test_legacy_open3d(mesh):
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


def test_numpy_and_tensors(mesh):
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


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"vertices": 1000000}, ["claims 1000000 of 'vertex'"]),
        ({"vertices": 3}, ["of 'face'"]),
        ({"vertices": 5, "faces": 1}, ["row 4 of 'vertex'"]),
        ({"faces": 1}, ["1 lines follow"]),
        ({"faces": 0}, ["2 lines follow"]),
        ({"last": 4}, ["face indices from 0 to 3", "got 4"]),
        ({"last": "nan"}, ["'vertex_indices' has the value nan, no int32"]),
        ({"last": 1.5}, ["the value 1.5"]),
        ({"last": 5e9}, ["the value 5000000000.0"]),
        ({"z": "1e99"}, ["finite values in 'pos'"]),
        ({"last": -1}, ["face indices from 0 to 3", "got -1"]),
        ({"z": "nan"}, ["finite values in 'pos'", "row 1"]),
        ({"z": "inf"}, ["finite values in 'pos'"]),
        ({"z": "word"}, ["damaged", "word"]),
        ({"vertices": "many"}, ["element vertex many"]),
    ],
)
def test_lying_ascii_ply(tmp_path, change, parts):
    path = tmp_path / "a.ply"
    path.write_text(PLY.format(**GOOD))
    assert from_mesh(path).face.size(1) == 2
    path.write_text(PLY.format(**{**GOOD, **change}))
    with check_error(ValueError, "a.ply", "Expected", *parts):
        from_mesh(path)


def test_ply_with_a_property_twice(tmp_path):
    (tmp_path / "a.ply").write_text(TWICE.format(**GOOD))
    with check_error(ValueError, "a.ply", "'y' more than once"):
        from_mesh(tmp_path / "a.ply")


def test_truncated_binary_ply(tmp_path, mesh):
    content = to_mesh(mesh, tmp_path / "a.ply").read_bytes()
    cut = tmp_path / "cut.ply"
    for length in range(0, len(content), 397):
        cut.write_bytes(content[:length])
        with check_error(ValueError, "cut.ply"):
            from_mesh(cut)
    cut.write_bytes(content + b"more")
    with check_error(ValueError, "cut.ply", "4 bytes follow"):
        from_mesh(cut)
    cut.write_bytes(content.replace(b"element vertex 162", b"element vertex 9999999999"))
    with check_error(ValueError, "cut.ply", "claims 9999999999"):
        from_mesh(cut)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.integers(0, 2000),
    st.binary(min_size=1, max_size=8),
    st.sampled_from(["ply", "obj", "off", "stl"]),
)
def test_damage_is_a_value_error_or_a_valid_mesh(tmp_path, at, noise, suffix):
    path = tmp_path / f"a.{suffix}"
    box = trimesh.creation.box()
    content = bytearray(to_mesh(from_mesh(box.vertices, box.faces), path).read_bytes())
    at %= len(content)
    content[at : at + len(noise)] = noise
    path.write_bytes(content)
    try:
        data = from_mesh(path)
    except ValueError as error:
        assert f"a.{suffix}" in str(error)
    else:
        assert torch.isfinite(data.pos).all() and data.face.max() < data.num_nodes


@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
        ("a.off", "OFF\n30 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n", ["claims 30 vertices"]),
        ("a.off", "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 7\n", ["from 0 to 2", "got 7"]),
        ("a.off", "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n2 0 1\n", ["2 corners"]),
        ("a.off", "hello", ["no 'OFF'"]),
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 4\n", ["face indices from 0 to 2", "got 3"]),
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 0 1 2\n", ["face indices", "got -1"]),
        ("a.obj", "v 0 0\nf 1 1 1\n", ["2 of 3 numbers"]),
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\n", ["at least one face"]),
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2\n", ["face 1 has 2 corners"]),
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1/1/1/1 2 3\n", ["corner '1/1/1/1'"]),
        ("a.obj", "hello", ["no 'v' lines"]),
        ("a.ply", PLY.format(**GOOD).replace("float y", "quad y"), ["property quad y"]),
        ("a.stl", "hello", ["damaged"]),
        ("a.stl", "solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\n", ["endsolid"]),
        ("a.glb", "hello", ["damaged"]),
        ("a.ply", "hello", ["no header"]),
        ("a.ply", "", ["empty"]),
        ("a.fbx", "hello", ["one of .glb"]),
    ],
)
def test_other_damaged_files(tmp_path, name, text, parts):
    (tmp_path / name).write_text(text)
    with check_error(ValueError, name, "Expected", parts[0]):
        from_mesh(tmp_path / name)


def test_missing_directory_and_empty(tmp_path):
    with check_error(FileNotFoundError, "none.ply"):
        from_mesh(tmp_path / "none.ply")
    (tmp_path / "folder.ply").mkdir()
    with check_error(ValueError, "folder.ply", "directory"):
        from_mesh(tmp_path / "folder.ply")
    o3d = load_open3d()
    for theirs in (o3d.geometry.TriangleMesh(), o3d.t.geometry.TriangleMesh(), trimesh.Trimesh()):
        with check_error(ValueError, "from_mesh: Expected at least one point"):
            from_mesh(theirs)


def test_wrong_arguments(mesh):
    with check_error(ValueError, "'face' beside an array"):
        from_mesh(mesh.pos)
    with check_error(ValueError, r"\[3, F\]", r"\[320, 3\]"):
        from_mesh(mesh.pos, mesh.face.t())
    with check_error(ValueError, r"\[F, 3\]", r"\[3, 320\]"):
        from_mesh(mesh.pos, mesh.face.numpy())
    with check_error(ValueError, r"positions of shape \[N, 3\]", r"\[162, 2\]"):
        from_mesh(mesh.pos[:, :2], mesh.face)
    with check_error(ValueError, "162 rows in 'x'", "got 5"):
        from_mesh(mesh.pos, mesh.face, x=torch.rand(5, 3))
    with check_error(TypeError, "got builtins.dict"):
        from_mesh({})
    with check_error(ValueError, "'kind'", "got 'maya'"):
        to_mesh(mesh, kind="maya")
    del mesh.face
    with check_error(ValueError, "to_mesh: Expected 'face' in data", "pos"):
        to_mesh(mesh)


def test_writing_is_whole_or_not_at_all(tmp_path, mesh):
    path = to_mesh(mesh, tmp_path / "a.ply")
    before = path.read_bytes()
    mesh.y = mesh.y + 2**40
    with check_error(ValueError, "'y' to fit 32-bit"):
        to_mesh(mesh, path)
    del mesh.y
    mesh.face = mesh.face + 1
    with check_error(ValueError, "to_mesh: Expected face indices"):
        to_mesh(mesh, path)
    with check_error(ValueError, "got '.blend'"):
        to_mesh(from_mesh(path), tmp_path / "a.blend")
    with check_error(FileNotFoundError, "no_folder"):
        to_mesh(from_mesh(path), tmp_path / "no_folder" / "a.ply")
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_heavy_libraries_load_when_needed():
    code = "import sys, permutogeo.data, permutogeo.transforms; print(sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(run.stdout))
    assert not loaded & {"open3d", "trimesh", "skimage"}


def test_ascii_ply_with_mixed_polygons(tmp_path):
    text = PLY.format(**{**GOOD, "faces": 2}).replace("3 0 2 3\n", "4 0 1 2 3\n")
    (tmp_path / "a.ply").write_text(text)
    assert from_mesh(tmp_path / "a.ply").face.t().tolist() == [[0, 1, 2], [0, 1, 2], [0, 2, 3]]


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
