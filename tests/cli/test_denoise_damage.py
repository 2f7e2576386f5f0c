"""Damaged meshes and files: mended with a warning, or refused with a message and an exit code."""

import math

import numpy as np
import pytest
import torch
import trimesh
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from permutogeo import cli
from permutogeo.data import from_mesh, from_point_cloud, to_mesh
from permutogeo.testing.mesh import sound

HEADER = """ply
format ascii 1.0
element vertex {}
property float x
property float y
property float z
property int number
element face {}
property list uchar int vertex_indices
property int label
end_header
"""
bounded = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def denoise(path, out, method="smooth"):
    return CliRunner().invoke(cli.app, ["denoise", str(path), "-o", str(out), "--method", method])


def sphere():
    mesh = trimesh.creation.icosphere(1)
    return np.asarray(mesh.vertices).tolist(), np.asarray(mesh.faces).tolist()


def write_ply(path, vertices, faces):
    """Whatever is given, with a number for each vertex and a label for each face."""
    rows = [f"{x} {y} {z} {i}" for i, (x, y, z) in enumerate(vertices)]
    rows += [f"3 {a} {b} {c} {i}" for i, (a, b, c) in enumerate(faces)]
    path.write_text(HEADER.format(len(vertices), len(faces)) + "\n".join(rows) + "\n")


def nan_vertex(draw, vertices, faces):
    row = draw(st.integers(0, len(vertices) - 1))
    vertices[row] = (math.nan, *vertices[row][1:])


def nowhere(draw, vertices, faces):
    faces.append([0, 1, draw(st.sampled_from([-1, len(vertices) + 40, 10**9]))])


def degenerate(draw, vertices, faces):
    a, b = draw(st.integers(0, 11)), draw(st.integers(0, 11))
    faces.insert(draw(st.integers(0, len(faces))), [a, b, a])


def duplicate(draw, vertices, faces):
    a, b, c = faces[draw(st.integers(0, len(faces) - 1))]
    faces.append([b, c, a])


def reverse(draw, vertices, faces):
    faces.append(faces[draw(st.integers(0, len(faces) - 1))][::-1])


def fin(draw, vertices, faces):
    """A third face at an edge."""
    vertices.append((2.0, 0.1, draw(st.sampled_from([0.0, 0.5]))))
    faces.append([*faces[0][:2], len(vertices) - 1])


def part(draw, vertices, faces):
    base = len(vertices)
    vertices.extend([(5.0, 0.0, 0.0), (6.0, 0.0, 0.0), (5.0, 1.0, 0.0)])
    faces.append([base, base + 1, base + 2])


def stray(draw, vertices, faces):
    vertices.append((-3.0, draw(st.sampled_from([0.0, 1.0, 30.0])), 0.0))


def hole(draw, vertices, faces):
    del faces[draw(st.integers(0, len(faces) - 1))]


def collapse(draw, vertices, faces):
    """A face of area 0 whose corners are different vertices."""
    vertices[faces[0][0]] = vertices[faces[0][1]]


DAMAGE = [nan_vertex, nowhere, degenerate, duplicate, reverse, fin, part, stray, hole, collapse]


@bounded
@given(
    st.data(), st.lists(st.sampled_from(DAMAGE), max_size=6), st.sampled_from(["learned", "smooth"])
)
def test_damaged_meshes_are_mended(tmp_path, data, damages, method):
    vertices, faces = sphere()
    for damage in damages:
        damage(data.draw, vertices, faces)
    path, out = tmp_path / "a.ply", tmp_path / "b.ply"
    out.unlink(missing_ok=True)
    write_ply(path, vertices, faces)
    before = path.read_bytes()
    result = denoise(path, out, method)
    assert result.exit_code == 0, result.output
    assert path.read_bytes() == before
    whole, kept = sound(vertices, faces)
    clean = from_mesh(out)
    assert clean.number.tolist() == whole and clean.face_label.tolist() == kept
    assert clean.face.t().tolist() == [[whole.index(v) for v in faces[i]] for i in kept]
    mended = len(whole) < len(vertices) or len(kept) < len(faces)
    assert ("Warning: " in result.stderr and "dropped" in result.stderr) == mended
    used = {vertex for i in kept for vertex in faces[i]}
    for row, number in enumerate(whole):
        if number not in used:  # nothing says where a vertex without faces should be
            assert clean.pos[row].tolist() == pytest.approx(vertices[number])


@bounded
@given(
    st.sampled_from(["ply", "obj", "off", "stl"]),
    st.sampled_from(["cut", "change", "insert"]),
    st.integers(0, 10**6),
    st.binary(min_size=1, max_size=12),
)
def test_damaged_files_are_read_or_refused(tmp_path, suffix, damage, at, noise):
    path, out = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    out.unlink(missing_ok=True)
    vertices, faces = sphere()
    content = to_mesh(from_mesh(np.array(vertices), np.array(faces)), path).read_bytes()
    at %= len(content)
    after = {"cut": len(content), "change": at + len(noise), "insert": at}[damage]
    content = content[:at] + (b"" if damage == "cut" else noise) + content[after:]
    path.write_bytes(content)
    result = denoise(path, out)
    assert path.read_bytes() == content
    assert {p.name for p in tmp_path.iterdir()} <= {
        f"{name}.{s}" for name in "ab" for s in ("ply", "obj", "off", "stl")
    }
    if result.exit_code == 0:
        read = from_mesh if " faces, " in result.stdout else from_point_cloud
        assert read(out).pos.isfinite().all() and "Error" not in result.stderr
    else:
        assert result.exit_code == 1 and not out.exists()
        assert result.stderr.startswith("Error: ") or result.stderr.startswith("Warning: ")
        assert str(path) in result.stderr and "Traceback" not in result.output


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.ply", HEADER.format(0, 0), "at least one point"),
        ("a.obj", "# nothing\n", "no 'v' lines"),
        ("a.off", "OFF\n0 0 0\n", "at least one point"),
        ("a.stl", bytes(84), "no triangles"),
        ("a.ply", "", "the file is empty"),
        ("a.ply", "hello", "no header"),
        ("a.ply", HEADER.format(5, 5) + "0 0 0 0\n", "claims 5 of 'vertex', there are 1"),
        ("a.off", "OFF\n3 1 0\n0 0 nan\n0 nan 0\nnan 0 0\n3 0 1 2\n", "a finite vertex"),
        ("a.off", "OFF\n3 1 0\n0 0 0\n0 1 0\n1 0 0\n3 0 1 7\n", "a valid face (got 1 face with an"),
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nf 1/1 2/1 3/9\n", "'vt' 9, there are 1"),
    ],
)
def test_hopeless_files(tmp_path, name, content, message):
    path, out = tmp_path / name, tmp_path / "out.ply"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    result = denoise(path, out)
    assert result.exit_code == 1 and not out.exists()
    assert result.stderr.startswith(f"Error: '{path}': ") and message in result.stderr


def test_clouds_lose_points_that_are_not_finite(tmp_path):
    points = torch.randn(60, 3).tolist()
    points[7] = [1.0, math.inf, 0.0]
    path, out = tmp_path / "a.ply", tmp_path / "b.ply"
    write_ply(path, points, [])
    result = denoise(path, out, "learned")
    assert result.exit_code == 0, result.output
    assert f"Warning: '{path}': dropped 1 non-finite vertex" in result.stderr
    assert from_point_cloud(out).number.tolist() == [i for i in range(60) if i != 7]
