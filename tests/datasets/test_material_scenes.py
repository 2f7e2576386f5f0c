import numpy as np
import pytest
import torch

from permutogeo.datasets import MaterialScenes


def test_regions_with_materials():
    """Each image has several materials in connected areas, and colors in range."""
    scenes = MaterialScenes(6, size=64)
    for data in scenes:
        label = data.y.view(64, 64)
        assert float(data.x.min()) >= 0.0 and float(data.x.max()) <= 1.0
        same = (label[1:] == label[:-1]).float().mean()
        assert float(same) > 0.9 and int(label.max()) < scenes.num_classes
    assert len({len(data.y.unique()) for data in scenes} - {1}) > 0


def test_color_does_not_tell_the_material():
    """The mean colors of one material vary as much between images as those of all."""
    scenes = MaterialScenes(60, size=24, num_regions=1)
    color = torch.stack([data.x.mean(0) for data in scenes])
    label = torch.tensor([int(data.y[0]) for data in scenes])
    counts = torch.bincount(label, minlength=scenes.num_classes)
    assert int((counts > 0).sum()) == scenes.num_classes
    own = torch.cat([color[label == k] - color[label == k].mean(0) for k in range(len(counts))])
    assert float(own.var()) > 0.7 * float((color - color.mean(0)).var())


def test_light_changes_within_a_region():
    data = MaterialScenes(1, size=64, num_regions=1)[0]
    rows = data.x.view(64, 64, 3).mean((1, 2))
    assert float(rows.max() / rows.min()) > 1.05


def test_images_follow_seed_split_and_index():
    first = MaterialScenes(2, size=16)[1].x
    assert torch.equal(MaterialScenes(5, size=16)[1].x, first)
    others = [
        MaterialScenes(2, size=16, seed=1)[1],
        MaterialScenes(2, "val", size=16)[1],
        MaterialScenes(2, size=16)[0],
    ]
    assert all(not torch.equal(other.x, first) for other in others)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"split": "all"}, "'split' in train, val, test"),
        ({"size": 7}, "'size' of 8 or more"),
        ({"num_regions": 0}, "'num_regions' of 1 or more"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=f"MaterialScenes: Expected {message}"):
        MaterialScenes(2, **settings)


def test_classes_name_the_labels():
    scenes = MaterialScenes(1, size=16)
    assert len(scenes.classes) == scenes.num_classes == len(np.unique(scenes.classes))
