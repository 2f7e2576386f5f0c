"""Edges, gradients, projection and quality."""

import numpy as np
import pytest

from permutogeo.datasets.synthetic.meshing import mesh_solid
from permutogeo.datasets.synthetic.patch_mesh import (
    Edges,
    MeshingError,
    triangle_quality,
    value_and_gradient,
)
from permutogeo.datasets.synthetic.primitives import box, ellipsoid


def test_gradients():
    points = np.random.default_rng(2).uniform(-1, 1, (50, 3))
    value, gradient = value_and_gradient(ellipsoid(0.5).surfaces[0], points)
    norm = np.linalg.norm(points, axis=1)
    np.testing.assert_allclose(value, norm - 0.5, atol=1e-12)
    np.testing.assert_allclose(gradient, points / norm[:, None], atol=1e-4)


def test_open_and_non_manifold_meshes_are_refused():
    with pytest.raises(MeshingError):
        Edges.of(np.array([[0, 1, 2]]))
    with pytest.raises(MeshingError):
        Edges.of(np.array([[0, 1, 2], [1, 0, 2], [0, 1, 3], [1, 0, 3]]))


def test_quality():
    equal = np.array([[0.0, 0, 0], [1, 0, 0], [0.5, 3**0.5 / 2, 0]])
    flat = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0]])
    np.testing.assert_allclose(triangle_quality(np.stack([equal, flat])), [3**0.5 / 2, 0])
    up = np.array([[0.0, 0, 1], [0, 0, -1]])
    sides = triangle_quality(np.stack([equal, equal]), up)
    np.testing.assert_allclose(sides, [3**0.5 / 2, -(3**0.5) / 2])


def test_vertices_are_projected_onto_their_surfaces():
    """Noise on a box vanishes: smooth vertices return to planes, crease vertices to lines."""
    half = np.array([0.7, 0.5, 0.4])
    mesh = mesh_solid(box(half), 600)
    rng = np.random.default_rng(0)
    noisy = mesh.pos + 0.005 * rng.standard_normal(mesh.pos.shape)
    found = mesh.project(noisy, np.arange(len(noisy)), reach=0.1)
    on_planes = np.isclose(np.abs(found), half, atol=1e-9).sum(axis=1)
    np.testing.assert_array_equal(on_planes, mesh.vertex_type + 1)
