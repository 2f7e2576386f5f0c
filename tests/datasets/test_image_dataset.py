"""Base class of the datasets of images."""

import pytest
import torch
from torch_geometric.loader import DataLoader

from permutogeo.datasets import VOC2012
from permutogeo.transforms import BilateralFeature

VOC = "VOCdevkit/VOC2012"


def test_a_part_of_a_dataset_keeps_its_places(tmp_path, voc, make):
    make.folder(tmp_path, voc)
    dataset = VOC2012(tmp_path, "trainval", transform=BilateralFeature(pos=2.0, intensity=0.3))
    part = dataset[1:]
    assert part.names == dataset.names[1:]
    assert torch.equal(part.image(0), dataset.image(1))
    assert torch.equal(part.label(1).reshape(-1), part[1].y)
    (batch,) = DataLoader(part, batch_size=2)
    assert batch.num_graphs == 2 and batch.feature.shape == (108, 3)


def test_damaged_images(tmp_path, voc, make):
    path = tmp_path / "voc2012" / "train.zip"
    inner = make.below(voc, VOC)
    make.zip(path, {"readme.txt": b"text"})
    with pytest.raises(FileNotFoundError, match="Expected images in"):
        VOC2012(tmp_path)
    make.zip(path, {**inner, "JPEGImages/2007_000000.jpg": b"no image"})
    with pytest.raises(ValueError, match=r"an image 'JPEGImages/2007_000000\.jpg'"):
        VOC2012(tmp_path)[0]
    label = make.encoded(make.labels((4, 4)), ".png", "P")
    make.zip(path, {**inner, "SegmentationClass/2007_000000.png": label})
    with pytest.raises(ValueError, match=r"'y' of 2007_000000 for 9 x 6 pixels \(got 16 values\)"):
        VOC2012(tmp_path)[0]
