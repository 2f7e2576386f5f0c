"""How errors are measured."""

import numpy as np
import pytest

from permutogeo.viz._error import distances, mean_spacing, round_up


def test_mean_spacing_of_a_grid():
    grid = np.stack(np.meshgrid(range(5), range(5), range(3)), axis=-1).reshape(-1, 3) * 0.5
    assert mean_spacing(grid) == pytest.approx(0.5)
    assert mean_spacing(grid[:1]) == 0


def test_other_triangles_are_compared_with_the_surface():
    """Points above a square of two triangles: distances that are known."""
    target = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]) + 1000
    face = np.array([[0, 1, 2], [0, 2, 3]])
    pos = np.array([[0.3, 0.6, 0.2], [0.5, 0.5, -0.7], [2, 0.5, 0], [-3, -4, 0], [1, 2, 1]])
    expected = [0.2, 0.7, 1, 5, np.sqrt(2)]
    np.testing.assert_allclose(distances(pos + 1000, None, target, face), expected, rtol=1e-5)


def test_clouds_are_compared_with_the_nearest_point():
    rng = np.random.default_rng(0)
    pos, target = rng.random((40, 3)), rng.random((50, 3))
    expected = np.linalg.norm(pos[:, None] - target, axis=2).min(axis=1)
    np.testing.assert_allclose(distances(pos, None, target, None), expected)


@pytest.mark.parametrize(("value", "end"), [(0, 1), (0.7, 0.8), (1, 1), (0.05, 0.05), (8.1, 10)])
def test_the_scale_ends_at_a_round_number(value, end):
    assert round_up(value) == pytest.approx(end)
