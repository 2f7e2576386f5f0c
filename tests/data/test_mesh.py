"""Meshes between files, objects and ``Data``."""

import ast
import subprocess
import sys

import numpy as np
import torch

from permutogeo.data import (
    from_mesh,
    to_mesh,
)


def test_glb(tmp_path, mesh, assert_same):
    back = from_mesh(to_mesh(mesh, tmp_path / "a.glb"))
    assert_same(back, mesh, ("pos", "face", "x", "normal"))


def test_numpy_and_tensors(mesh, assert_same):
    vertices, faces = to_mesh(mesh, kind="numpy")
    assert vertices.shape == (162, 3) and faces.shape == (320, 3)
    for data in (from_mesh(vertices, faces), from_mesh(mesh.pos, mesh.face)):
        assert_same(data, mesh, ("pos", "face"))
    vertices[:] = 0
    assert mesh.pos.any()
    colors = np.full((162, 3), 255, np.uint8)
    assert (from_mesh(mesh.pos, mesh.face, x=colors).x == 1).all()


def test_heavy_libraries_load_when_needed():
    code = "import sys, permutogeo.data, permutogeo.transforms; print(sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(run.stdout))
    assert not loaded & {"open3d", "trimesh", "skimage"}


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
