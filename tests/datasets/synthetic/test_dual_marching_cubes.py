"""Topology of the extracted surface."""

import numpy as np
import pytest
import trimesh
from scipy.ndimage import gaussian_filter, label, map_coordinates
from skimage.measure import marching_cubes

from permutogeo.datasets.synthetic.dual_marching_cubes import dual_marching_cubes
from permutogeo.datasets.synthetic.patch_mesh import MeshingError
from permutogeo.datasets.synthetic.primitives import ellipsoid


def as_trimesh(pos, face):
    return trimesh.Trimesh(np.asarray(pos, float), np.asarray(face), process=False)


def test_has_the_topology_of_marching_cubes():
    noise = np.random.default_rng(3).standard_normal((28, 28, 28))
    field = np.pad(-gaussian_filter(noise, 3.0) - 0.01, 2, constant_values=1.0)
    field[label(field < 0)[0] > 1] = 1.0  # the largest part alone is asked for

    def values(points):
        return map_coordinates(field, points.T, order=1), np.zeros(len(points), np.int64)

    pos, quads, _ = dual_marching_cubes(values, np.zeros(3), 1.0, field.shape)
    found = as_trimesh(pos, np.concatenate([quads[:, :3], quads[:, [0, 2, 3]]]))
    vertices, faces, *_ = marching_cubes(field, 0.0)
    expected = trimesh.Trimesh(vertices, faces)
    assert found.is_watertight and found.is_winding_consistent
    assert found.euler_number == expected.euler_number
    assert found.volume == pytest.approx(abs(expected.volume), rel=0.05)


def test_a_lipschitz_bound_changes_nothing():
    """Blocks that are skipped hold no surface."""
    solid, low, shape = ellipsoid(0.8), np.full(3, -1.05), (42, 42, 42)
    full = dual_marching_cubes(solid, low, 0.05, shape)
    fast = dual_marching_cubes(solid, low, 0.05, shape, lipschitz=1.0)
    for a, b in zip(full, fast, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_solid_that_leaves_the_grid_is_refused():
    with pytest.raises(MeshingError, match="larger than the grid"):
        dual_marching_cubes(ellipsoid(1.2), np.full(3, -1.0), 0.1, (20, 20, 20))
