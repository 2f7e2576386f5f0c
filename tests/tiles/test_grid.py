"""Tiles of a plane."""

import numpy as np
import pytest

from permutogeo.tiles.grid import Grid, choose_size, default_memory, points_in_memory


def test_each_point_has_one_tile():
    rng = np.random.default_rng(0)
    pos = np.concatenate([rng.random((500, 2)) * 40 + 5e5, 5e5 + rng.integers(0, 41, (200, 2))])
    pos = np.concatenate([pos, [[0, 0], [1e9, 1e9]]])  # far out of the bounds of the header
    grid = Grid(np.array([5e5, 5e5, 0]), np.array([5e5 + 40, 5e5 + 40, 9]), 7.0)
    cell = grid.cell(pos[:, 0], pos[:, 1])
    tiles = [grid.tile(number) for number in range(grid.shape[0] * grid.shape[1])]
    inside = np.stack([tile.contains(pos) for tile in tiles])
    assert (inside.sum(axis=0) == 1).all() and np.array_equal(inside.argmax(axis=0), cell)
    quarters = [part for tile in tiles for part in grid.quarter(tile)]
    assert (np.stack([part.contains(pos) for part in quarters]).sum(axis=0) == 1).all()
    assert grid.side(quarters[0]) == 3.5 and len({tile.name for tile in tiles}) == len(tiles)


def test_tiles_around_a_box():
    grid = Grid(np.zeros(3), np.array([50.0, 50, 1]), 10.0)
    low, high = grid.tile(grid.cell(np.array([25.0]), np.array([25.0]))[0]).with_margin(1)
    assert low.tolist() == [19, 19] and high.tolist() == [31, 31]
    assert len(list(grid.cells_in(low, high))) == 9


def test_bounds_that_cannot_be():
    with pytest.raises(ValueError, match=r"Expected tiles of at least .* \(got 1\)"):
        Grid(np.zeros(3), np.array([1e300, 1, 1]), 1.0)


def test_size_by_memory():
    low, high = np.zeros(3), np.array([1000.0, 1000, 9])
    assert choose_size(low, high, 1000, 1.0, 10**6) > 1000
    side = choose_size(low, high, 10**8, 5.0, 10**6)
    assert (side + 10) ** 2 * 100 == pytest.approx(5e5)
    assert choose_size(low, high, 10**8, 50.0, 10**4) == 50  # never smaller than the margin
    assert points_in_memory(10, 1000) == 1 and default_memory() > 2**20
