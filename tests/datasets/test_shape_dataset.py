"""Shapes in memory, and splits by shape."""

import pytest
import torch
from torch_geometric.data import Data

from permutogeo.datasets.shape_dataset import SPLITS, ShapeDataset, split_mask, split_parts


def test_filters_and_transforms():
    def double(data):
        data.x = 2 * data.x
        return data

    shapes = [Data(x=torch.full((1, 1), float(i))) for i in range(5)]
    dataset = ShapeDataset("root", shapes, double, double, lambda data: float(data.x) != 1)
    assert [float(data.x) for data in dataset] == [0, 8, 12, 16]
    assert [float(data.x) for data in dataset] == [0, 8, 12, 16], "access changes nothing"
    assert str(dataset) == "ShapeDataset(4)"


def test_splits_follow_the_pattern_of_ten_in_each_class():
    classes = ["a", "b"] * 20
    masks = {split: split_mask("D", classes, split) for split in SPLITS}
    assert [sum(masks[split]) for split in ("train", "val", "test")] == [24, 4, 12]
    assert all(
        a + b + c == 1
        for a, b, c in zip(*(masks[s] for s in ("train", "val", "test")), strict=True)
    )
    assert masks["train"][0::2] == masks["train"][1::2]
    assert masks["trainval"] == [not test for test in masks["test"]]
    assert all(masks["all"])


def test_unknown_splits():
    assert split_parts("D", "trainval") == ("train", "val")
    assert split_parts("D", "x", {"x": ["y"]}) == ["y"]
    with pytest.raises(ValueError, match=r"D: Expected 'split' in train, val, .*got 'tset'"):
        split_parts("D", "tset")
