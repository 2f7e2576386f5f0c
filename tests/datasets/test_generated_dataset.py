"""Samples are generated once, and transformed."""

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from permutogeo.datasets.generated_dataset import GeneratedDataset


class Counter(GeneratedDataset):
    """Samples whose one number is their index; remembers what it generated."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.generated = []

    def generate(self, index):
        self.generated.append(index)
        return Data(x=torch.full((1, 1), float(index + self.seed)))


def double(data):
    data.x = 2 * data.x
    return data


def test_generated_once_and_transformed():
    dataset = Counter(20, 0, transform=double, pre_transform=double)
    first, second = dataset[3], dataset[3]
    assert dataset.generated == [3]
    assert float(first.x) == float(second.x) == 12
    batch = next(iter(DataLoader(dataset[[3, 4]], batch_size=2)))
    assert batch.x.reshape(-1).tolist() == [12, 16]
    assert str(dataset) == "Counter(20)"


def test_errors():
    with pytest.raises(ValueError, match=r"Counter: Expected a number of 1 or more \(got 0\)"):
        Counter(0, 0)
    with pytest.raises(ValueError, match=r"Counter: Expected a seed of 0 or more \(got -1\)"):
        Counter(1, -1)
