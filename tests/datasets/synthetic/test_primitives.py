"""Primitives against their definitions."""

import numpy as np
import pytest
from skimage.measure import points_in_poly

from permutogeo.datasets.synthetic.primitives import (
    cone,
    ellipsoid,
    infinite_prism,
    rounded_box,
    smooth_union,
    torus,
)

STAR = np.array([[1, 0], [0.3, 0.2], [0.1, 1], [-0.2, 0.3], [-1, -0.1], [-0.1, -0.2], [0.1, -0.9]])


@pytest.mark.parametrize("outline", [STAR, STAR[::-1], STAR[:3]], ids=["left", "right", "convex"])
def test_polygons(outline):
    """A prism is where the polygon is, whichever way round it is given."""
    points = np.random.default_rng(0).uniform(-1.2, 1.2, (3000, 3))
    value, index = infinite_prism(outline)(points)
    np.testing.assert_array_equal(value < 0, points_in_poly(points[:, :2], outline))
    assert index.max() < len(infinite_prism(outline).surfaces)


def test_exact_distances():
    """A ball, a torus and a rounded box are signed distances outside."""
    points = np.random.default_rng(0).uniform(-2, 2, (500, 3))
    radius = np.linalg.norm(points, axis=1)
    np.testing.assert_allclose(ellipsoid(0.5)(points)[0], radius - 0.5)
    ring = np.hypot(np.hypot(points[:, 0], points[:, 1]) - 0.7, points[:, 2]) - 0.2
    np.testing.assert_allclose(torus(0.7, 0.2)(points)[0], ring)
    outside = np.linalg.norm(points - np.clip(points, -0.3, 0.3), axis=1)
    value = rounded_box((0.5, 0.5, 0.5), 0.2)(points)[0]
    np.testing.assert_allclose(value[outside > 0], outside[outside > 0] - 0.2)
    assert (value[outside == 0] < -0.2 + 1e-9).all()


def test_cone():
    solid = cone(0.6, 1.0)
    np.testing.assert_array_equal(solid.singular_points, [[0, 0, 1.0]])
    points = np.array([[0, 0, 0.5], [0.29, 0, 0.5], [0.31, 0, 0.5], [0, 0, -0.1], [0, 0, 1.1]])
    np.testing.assert_array_equal(solid(points)[0] < 0, [True, True, False, False, False])


def test_smooth_union_is_the_union_away_from_the_seam():
    first, second = ellipsoid(0.5).surfaces[0], rounded_box((0.8, 0.3, 0.2), 0.1).surfaces[0]
    points = np.random.default_rng(0).uniform(-1, 1, (2000, 3))
    a, b = first(points), second(points)
    value = smooth_union([first, second], 0.2)(points)[0]
    apart = np.abs(a - b) >= 0.2
    np.testing.assert_array_equal(value[apart], np.minimum(a, b)[apart])
    assert (value[~apart] < np.minimum(a, b)[~apart]).all()
    assert (np.minimum(a, b) - value).max() <= 0.2 / 6
