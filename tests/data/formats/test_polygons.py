"""Triangulation of polygons."""

import numpy as np
import pytest

from permutogeo.data.formats.polygons import fan_corners, flatten, triangulate


def test_fan_of_mixed_polygons():
    polygons = [np.array([7, 8, 9]), np.array([0, 1, 2, 3, 4]), np.array([5, 6, 0, 1])]
    triangles, polygon = triangulate(polygons)
    assert triangles.tolist() == [[7, 8, 9], [0, 1, 2], [0, 2, 3], [0, 3, 4], [5, 6, 0], [5, 0, 1]]
    assert polygon.tolist() == [0, 1, 1, 1, 2, 2]


def test_arrays_and_lists_agree():
    quads = np.arange(8).reshape(2, 4)
    for a, b in zip(triangulate(quads), triangulate(list(quads)), strict=True):
        assert np.array_equal(a, b)
    assert flatten(quads)[0].tolist() == [4, 4]


def test_corners_are_numbered_over_all_polygons():
    corners, polygon = fan_corners(np.array([3, 4]))
    assert corners.tolist() == [[0, 1, 2], [3, 4, 5], [3, 5, 6]] and polygon.tolist() == [0, 1, 1]


def test_errors():
    with pytest.raises(ValueError, match="face 2 has 2 corners"):
        fan_corners(np.array([3, 2]))
    with pytest.raises(ValueError, match="face indices are no integers"):
        triangulate(np.array([[0.0, 1.0, 1.5]]))
