import numpy as np
import pytest
import torch

from permutogeo.datasets import Tiles
from permutogeo.transforms import BilateralFeature


def test_a_tile_before_a_background():
    data = Tiles(3, noise=0.0)[1]
    color, label = data.x.view(64, 64, 3).numpy(), data.y.view(64, 64).numpy()
    rows, columns = label.nonzero()
    assert label.sum() == 400 and np.ptp(rows) == np.ptp(columns) == 19
    assert len(np.unique(color[label == 1], axis=0)) == 1
    assert len(np.unique(color[label == 0], axis=0)) == 1
    assert not np.array_equal(color[label == 1][0], color[label == 0][0])
    assert data.pos[65].tolist() == [1.0, 1.0]


def test_noise():
    smooth, noisy = Tiles(1, noise=0.0)[0], Tiles(1)[0]
    assert torch.equal(smooth.y, noisy.y)
    difference = noisy.x - smooth.x
    assert float(difference.std()) == pytest.approx(0.02, rel=0.05)
    assert abs(float(difference.mean())) < 0.001


def test_all_places_and_colors_occur():
    tiles = Tiles(300, size=8, tile=7, split="val", noise=0.0)
    corners = {tuple(data.pos[data.y == 1].amin(0).tolist()) for data in tiles}
    assert corners == {(0, 0), (0, 1), (1, 0), (1, 1)}
    colors = torch.stack([data.x[data.y == 1][0] for data in tiles])
    assert float(colors.min()) < 0.02 and float(colors.max()) > 0.98


def test_images_follow_seed_split_and_index():
    first = Tiles(2)[1].x
    assert torch.equal(Tiles(5)[1].x, first)
    others = [Tiles(2, seed=1)[1], Tiles(2, split="val")[1], Tiles(2, split="test")[1], Tiles(2)[0]]
    assert all(not torch.equal(other.x, first) for other in others)


def test_transforms():
    tiles = Tiles(2, size=16, tile=4, pre_transform=BilateralFeature(pos=20.0, rgb=0.1))
    assert tiles[0].feature.shape == (256, 5)
    assert torch.equal(tiles[0].feature[:, :2], tiles[0].pos / 20)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"split": "all"}, "'split' in train, val, test"),
        ({"split": "none"}, "Expected 'split'"),
        ({"tile": 65}, "'tile' in 1 to 64"),
        ({"tile": 0}, "'tile' in 1 to 64"),
        ({"noise": -1.0}, "'noise' of 0 or more"),
        ({"num_images": 0}, "Expected a number of 1"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=f"Tiles: .*{message}"):
        Tiles(**{"num_images": 1, **settings})
