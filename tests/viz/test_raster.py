"""The z-buffer against rays that are cast through every pixel."""

import numpy as np
import pytest

from permutogeo.viz import _raster
from permutogeo.viz._raster import draw_points, draw_triangles

WIDTH, HEIGHT = 23, 17


def cast(corners, x, y):
    """Nearest hit of the ray (x, y, 1) t with triangles [F, 3, 3]: number, depth, weights."""
    best = (-1, np.inf, None)
    for number, corner in enumerate(corners):
        try:
            weight = np.linalg.solve(corner.T, [x, y, 1.0])
        except np.linalg.LinAlgError:
            continue
        depth = 1 / weight.sum()
        if (weight >= 0).all() and depth < best[1]:
            best = (number, depth, weight / weight.sum())
    return best


@pytest.fixture
def scene():
    """Vertices in view coordinates at distances 3 to 5, projected to pixels."""
    rng = np.random.default_rng(0)
    depth = rng.uniform(3, 5, 60)
    screen = rng.uniform(-4, 26, (60, 2))
    face = rng.integers(0, 60, (40, 3))
    face = face[(face != np.roll(face, 1, axis=1)).all(axis=1)]
    return screen, depth, face


@pytest.mark.parametrize("chunk", [1, 100, 1 << 16])
def test_triangles_match_rays(scene, chunk, monkeypatch):
    monkeypatch.setattr(_raster, "CHUNK", chunk)
    screen, depth, face = scene
    pixel, triangle, weight = draw_triangles(screen, 1 / depth, face, (WIDTH, HEIGHT))
    found = dict(zip(pixel.tolist(), range(len(pixel)), strict=True))
    corners = (np.c_[screen, np.ones(len(screen))] * depth[:, None])[face]
    hits = 0
    for row in range(HEIGHT):
        for column in range(WIDTH):
            number, _, expected = cast(corners, column + 0.5, row + 0.5)
            here = found.get(row * WIDTH + column)
            assert (number == -1) == (here is None)
            if here is not None:
                assert triangle[here] == number
                np.testing.assert_allclose(weight[here], expected, atol=1e-9)
                hits += 1
    assert hits > 100


def test_a_strip_has_no_gaps():
    """Neighbors share an edge that runs through pixel centres: every pixel belongs to one."""
    screen = np.array([[0.5, 0.5], [8.5, 0.5], [8.5, 8.5], [0.5, 8.5]])
    pixel, triangle, _ = draw_triangles(
        screen, np.full(4, 0.25), np.array([[0, 1, 2], [0, 2, 3]]), (9, 9)
    )
    assert len(pixel) == 81
    assert set(triangle) == {0, 1}


def test_points_match_distances():
    rng = np.random.default_rng(1)
    screen, depth = rng.uniform(-2, 24, (50, 2)), rng.uniform(3, 5, 50)
    radius = rng.uniform(0.3, 3, 50)
    pixel, point = draw_points(screen, 1 / depth, radius, (WIDTH, HEIGHT))
    row, column = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    center = np.stack([column.ravel(), row.ravel()], axis=1)
    covered = np.linalg.norm(center[:, None] - screen, axis=2) <= radius
    expected = np.where(covered, depth, np.inf).argmin(axis=1)
    np.testing.assert_array_equal(pixel, np.flatnonzero(covered.any(axis=1)))
    np.testing.assert_array_equal(point, expected[pixel])


def test_nothing_in_view():
    face = np.array([[0, 1, 2]])
    outside = np.array([[-9.0, -9], [-8, -9], [-9, -8]])
    for screen in (outside, np.zeros((3, 2)), outside + 1000):
        pixel, triangle, weight = draw_triangles(screen, np.ones(3), face, (WIDTH, HEIGHT))
        assert len(pixel) == len(triangle) == len(weight) == 0
    assert len(draw_points(outside, np.ones(3), np.ones(3), (WIDTH, HEIGHT))[0]) == 0
