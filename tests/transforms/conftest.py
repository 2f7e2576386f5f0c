"""Meshes of the transforms' tests."""

import numpy as np
import pytest
import torch
import trimesh

from permutogeo.data import from_mesh


@pytest.fixture
def sphere():
    return from_mesh(trimesh.creation.icosphere(subdivisions=3), dtype=torch.float64)


@pytest.fixture
def box():
    return from_mesh(trimesh.creation.box(extents=(1, 2, 3)), dtype=torch.float64)


@pytest.fixture
def damaged():
    """An open sheet, a closed shape, a face twice, two degenerate faces and an unused vertex."""
    closed = trimesh.creation.icosphere(subdivisions=0)
    corner = np.array([0, 1, 2, 4, 5, 6])
    sheet = np.concatenate([np.stack([corner, corner + 1, corner + 5], axis=1),
                            np.stack([corner + 1, corner + 5, corner + 4], axis=1)])  # fmt: skip
    flat = np.array([[0, 0, 1], [3, 3, 3], sheet[4]])
    face = np.concatenate([closed.faces, sheet + 12, flat + 12])
    pos = np.concatenate([closed.vertices, np.random.default_rng(3).random((13, 3))])
    return from_mesh(pos, face, dtype=torch.float64)
