import random

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    """Pairs whose inputs are drawn at each access from all three global generators."""

    def __init__(self, count=22):
        generator = torch.Generator().manual_seed(1)
        self.x = torch.rand(count, 3, generator=generator)
        self.y = self.x @ torch.tensor([[1.0], [-2.0], [0.5]])

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        noise = torch.randn(3) * 0.1 + float(np.random.randn()) * 0.1 + random.gauss(0, 0.1)
        return self.x[i] + noise, self.y[i]


@pytest.fixture
def loader():
    return DataLoader(Noisy(), batch_size=4, shuffle=True)


@pytest.fixture
def make_model():
    """A model with random numbers of its own in each step."""

    def make():
        torch.manual_seed(7)
        return torch.nn.Sequential(
            torch.nn.Linear(3, 16), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(16, 1)
        )

    return make


@pytest.fixture
def same_rows():
    """Asserts that two logs agree in everything but the wall time."""

    def check(rows, others):
        first, second = (
            [{k: v for k, v in row.items() if k != "seconds"} for row in log]
            for log in (rows, others)
        )
        assert first == second

    return check
