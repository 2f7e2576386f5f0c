import torch

from permutogeo.datasets import StreetScenes


def test_scenes():
    scene = StreetScenes(3, num_points=4000)[1]
    assert scene.pos.shape == (4000, 3) and scene.pos.dtype == torch.float32
    counts = torch.bincount(scene.y, minlength=5)
    assert (counts > 10).all(), counts
    ground, building = scene.pos[scene.y == 0], scene.pos[scene.y == 1]
    assert ground[:, 2].abs().max() < 2 and building[:, 2].max() > 3
    distance = scene.pos.norm(dim=1)
    assert (distance < 10).sum() > (distance > 25).sum()  # as of a scanner in the middle


def test_scenes_follow_seed_split_and_index():
    first = StreetScenes(2, num_points=200)[1].pos
    assert torch.equal(StreetScenes(5, num_points=200)[1].pos, first)
    others = [StreetScenes(2, "val", 200)[1], StreetScenes(2, num_points=200, seed=1)[1]]
    assert all(not torch.equal(other.pos, first) for other in others)
