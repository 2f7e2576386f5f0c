"""The command line as a function, and meshes to give to it."""

import numpy as np
import pytest
import torch
import trimesh
from typer.testing import CliRunner

from permutogeo import cli
from permutogeo.data import from_mesh, to_mesh
from permutogeo.transforms import NormalNoise


@pytest.fixture(scope="session")
def run():
    """Call ``permutogeo`` with arguments."""
    return lambda *args: CliRunner().invoke(cli.app, list(map(str, args)))


@pytest.fixture(scope="session")
def cube():
    """Make a cube whose triangles were parted so often."""

    def make(times=3):
        mesh = trimesh.creation.box()
        for _ in range(times):
            mesh = mesh.subdivide()
        return from_mesh(np.asarray(mesh.vertices), np.asarray(mesh.faces))

    return make


@pytest.fixture(scope="session")
def noisy(cube):
    """Make such a cube with noise and colors."""

    def make(times=3):
        data = NormalNoise(0.2, seed=0)(cube(times))
        data.x = torch.randint(256, (data.num_nodes, 3)) / torch.tensor(255.0)
        return data

    return make


@pytest.fixture
def scan(tmp_path, noisy):
    """A noisy cube with attributes, in a folder of its own."""
    data = noisy()
    data.quality = torch.rand(data.num_nodes)
    data.face_label = torch.arange(data.face.size(1))
    return to_mesh(data, tmp_path / "scan.ply")


@pytest.fixture(scope="session")
def names():
    """List the files below a folder."""
    return lambda folder: sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()
    )
