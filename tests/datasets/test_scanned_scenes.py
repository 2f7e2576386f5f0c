import numpy as np
import pytest

from permutogeo.datasets import RoomScenes, StreetScenes
from permutogeo.datasets.scanned_scenes import box_points


def test_points_lie_on_the_walls_or_the_top():
    points = box_points(np.random.default_rng(0), 500, [1, 2, 0], [2, 3, 4])
    low, high = np.array([1, 2, 0]), np.array([3, 5, 4])
    assert (points >= low).all() and (points <= high).all()
    on_wall = ((points == low) | (points == high))[:, :2].any(1)
    on_top = points[:, 2] == 4
    assert (on_wall | on_top).all() and on_wall.any() and on_top.any()


@pytest.mark.parametrize("scenes", [RoomScenes, StreetScenes])
def test_heights_start_at_zero(scenes):
    scene = scenes(1, num_points=300)[0]
    assert scene.x.shape == (300, 1) and scene.x.min() == 0


@pytest.mark.parametrize("scenes", [RoomScenes, StreetScenes])
def test_errors(scenes):
    with pytest.raises(ValueError, match=rf"{scenes.__name__}: Expected 'split' in train, val"):
        scenes(2, "all")
    with pytest.raises(ValueError, match="'num_points' of 1 or more"):
        scenes(2, num_points=0)
