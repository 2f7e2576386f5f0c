import numpy as np
import pytest

from permutogeo.viz import cloud_map
from permutogeo.viz.cloud_map import LAS_COLORS, WRONG

# The centers of 4 x 2 cells, and the corners of the area.
X, Y = (np.arange(8) % 4) + 0.5, (np.arange(8) // 4) + 0.5
FLAT = np.stack([np.r_[X, 0.0, 4.0], np.r_[Y, 0.0, 2.0], np.zeros(10)], 1)


def test_a_flat_survey_has_the_colors_of_its_classes():
    label = np.r_[[1, 2, 5, 6, 6, 5, 2, 1], [1, 1]]
    picture = cloud_map(FLAT, label, size=4)
    assert picture.shape == (2, 4, 3) and picture.dtype == np.uint8
    # The first row of the picture is the far one.
    wanted = [[6, 5, 2, 1], [1, 2, 5, 6]]
    assert picture.tolist() == [[list(LAS_COLORS[c]) for c in row] for row in wanted]


def test_the_highest_point_is_seen_and_errors_are_marked():
    pos = np.concatenate([FLAT, [[*FLAT[0, :2], 0.001]]])
    label = np.r_[np.full(10, 2), 5]
    seen = cloud_map(pos, label, size=4)
    np.testing.assert_allclose(seen[1, 0], LAS_COLORS[5], atol=1)
    marked = cloud_map(pos, label, wrong=np.arange(11) == 10, size=4)
    np.testing.assert_allclose(marked[1, 0], WRONG, atol=1)
    assert (marked[0] == seen[0]).all()


def test_empty_cells_have_the_nearest_point():
    pos = np.array([[0.0, 0, 0], [10, 10, 0]])
    picture = cloud_map(pos, [1, 2], size=8)
    assert picture[-1, 0].tolist() == list(LAS_COLORS[1])
    assert picture[0, -1].tolist() == list(LAS_COLORS[2])
    assert {tuple(color) for color in picture.reshape(-1, 3).tolist()} == {
        LAS_COLORS[1], LAS_COLORS[2],
    }  # fmt: skip


def test_slopes_are_shaded():
    x, y = np.meshgrid(np.arange(16.0), np.arange(16.0))
    up = np.stack([x, y, 2 * x], -1).reshape(-1, 3)
    down = up * [1, 1, -1]
    bright, dark = (cloud_map(pos, np.full(256, 2), size=16).mean() for pos in (down, up))
    assert bright > dark + 10


def test_own_colors():
    picture = cloud_map(FLAT, np.full(10, 3), colors={3: (9, 8, 7)}, size=4)
    assert (picture == [9, 8, 7]).all()


def test_errors():
    with pytest.raises(ValueError, match=r"classes among \[1, 2, 5, 6, 7\] \(got \[3, 4\]\)"):
        cloud_map(FLAT, np.r_[np.full(8, 2), 3, 4])
    with pytest.raises(ValueError, match=r"'pos' of shape \[N, 3\], 'size' above 1"):
        cloud_map(FLAT[:, :2], np.full(10, 2))
    for line in (FLAT * [0, 1, 1], FLAT * [1, np.nan, 1]):
        with pytest.raises(ValueError, match=r"over an area \(got one of (4 x nan|0 x 2)\)"):
            cloud_map(line, np.full(10, 2))
