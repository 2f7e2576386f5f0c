from collections import namedtuple

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from torch_geometric.data import Data

from permutogeo.train import Trainer
from permutogeo.train.batches import to_device


def test_every_epoch_has_an_order_of_its_own():
    def orders(seed, epochs=3):
        seen = []

        def step(model, batch):
            seen.extend(batch[0].reshape(-1).tolist())
            return model(batch[0]).sum(), len(batch[0])

        loader = DataLoader(TensorDataset(torch.arange(20.0).view(-1, 1)), 3, shuffle=True,
                            generator=torch.Generator())  # fmt: skip
        Trainer(torch.nn.Linear(1, 1), step, lr=1e-6, epochs=epochs, seed=seed).fit(loader)
        return [seen[i : i + 20] for i in range(0, 20 * epochs, 20)]

    first = orders(0)
    assert all(sorted(order) == list(range(20)) for order in first)
    assert len({tuple(order) for order in first}) == 3
    assert orders(0) == first and orders(0, 2) == first[:2]
    assert orders(1) != first


def test_a_distributed_sampler_is_refused():
    data = TensorDataset(torch.rand(4, 1), torch.rand(4, 1))
    loader = DataLoader(data, sampler=DistributedSampler(data, num_replicas=2, rank=0))
    with pytest.raises(ValueError, match="without a DistributedSampler"):
        Trainer(torch.nn.Linear(1, 1)).fit(loader)


def test_to_device_keeps_the_structure():
    Pair = namedtuple("Pair", "x name")
    device = torch.device("meta")
    batch = {"pair": Pair(torch.rand(2), "a"), "list": [torch.rand(3), (1, Data(x=torch.rand(4)))]}
    moved = to_device(batch, device)
    assert isinstance(moved["pair"], Pair) and moved["pair"].name == "a"
    assert isinstance(moved["list"][1], tuple) and moved["list"][1][0] == 1
    for x in (moved["pair"].x, moved["list"][0], moved["list"][1][1].x):
        assert x.device == device
    assert batch["pair"].x.device.type == "cpu"
