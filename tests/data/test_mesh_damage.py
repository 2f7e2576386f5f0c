"""Files that lie, break off or are none, and arguments that make no sense."""

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


def test_ascii_ply_with_mixed_polygons(tmp_path):
    text = PLY.format(**{**GOOD, "faces": 2}).replace("3 0 2 3\n", "4 0 1 2 3\n")
    (tmp_path / "a.ply").write_text(text)
    assert from_mesh(tmp_path / "a.ply").face.t().tolist() == [[0, 1, 2], [0, 1, 2], [0, 2, 3]]


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
def test_lying_ascii_ply(tmp_path, change, parts, check_error):
    path = tmp_path / "a.ply"
    path.write_text(PLY.format(**GOOD))
    assert from_mesh(path).face.size(1) == 2
    path.write_text(PLY.format(**{**GOOD, **change}))
    with check_error(ValueError, "a.ply", "Expected", *parts):
        from_mesh(path)


def test_ply_with_a_property_twice(tmp_path, check_error):
    (tmp_path / "a.ply").write_text(TWICE.format(**GOOD))
    with check_error(ValueError, "a.ply", "'y' more than once"):
        from_mesh(tmp_path / "a.ply")


def test_truncated_binary_ply(tmp_path, mesh, check_error):
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
def test_other_damaged_files(tmp_path, name, text, parts, check_error):
    (tmp_path / name).write_text(text)
    with check_error(ValueError, name, "Expected", parts[0]):
        from_mesh(tmp_path / name)


def test_missing_directory_and_empty(tmp_path, check_error):
    with check_error(FileNotFoundError, "none.ply"):
        from_mesh(tmp_path / "none.ply")
    (tmp_path / "folder.ply").mkdir()
    with check_error(ValueError, "folder.ply", "directory"):
        from_mesh(tmp_path / "folder.ply")
    o3d = load_open3d()
    for theirs in (o3d.geometry.TriangleMesh(), o3d.t.geometry.TriangleMesh(), trimesh.Trimesh()):
        with check_error(ValueError, "from_mesh: Expected at least one point"):
            from_mesh(theirs)


def test_wrong_arguments(mesh, check_error):
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


def test_writing_is_whole_or_not_at_all(tmp_path, mesh, check_error):
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
