"""Damaged files of all formats: an error that names the file, or valid data."""

import pytest
import torch
import trimesh
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from permutogeo.data import from_mesh, from_point_cloud, to_mesh, to_point_cloud

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


GOOD = {"vertices": 4, "faces": 2, "z": 0, "last": 2}


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


def test_truncated_binary(tmp_path, cloud, check_error):
    for suffix in ("pcd", "ply", "npy", "npz"):
        content = to_point_cloud(cloud, tmp_path / f"a.{suffix}").read_bytes()
        for length in (0, 3, 50, len(content) // 2, len(content) - 2):
            (tmp_path / f"cut.{suffix}").write_bytes(content[:length])
            with check_error(ValueError, f"cut.{suffix}"):
                from_point_cloud(tmp_path / f"cut.{suffix}")


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("a.xyz", "1 2 3\n1 2\n", "row 1 has 2"),
        ("a.xyz", "1 2\n", "2 numbers"),
        ("a.xyz", "1 2 nan\n", "finite"),
        ("a.xyz", "# nothing\n", "0 numbers"),
        ("a.xyz", "a b c\n", "damaged"),
        ("a.xyzn", "1 2 3\n", "3 numbers"),
        ("a.pcd", "hello", "no 'DATA'"),
        ("a.npy", "hello", "damaged"),
        ("a.npz", "hello", "damaged"),
        ("a.las", "hello", "does not start with a LAS header"),
        ("a.foo", "hello", "got '.foo'"),
    ],
)
def test_damaged_text(tmp_path, name, text, part, check_error):
    (tmp_path / name).write_text(text)
    with check_error(ValueError, name, ".*" + part):
        from_point_cloud(tmp_path / name)
