"""The batches of an epoch, in an order that depends on the seed and the epoch alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.distributed import DistributedSampler

from permutogeo.train._random import derive, seed_all
from permutogeo.train._team import Team


def deal(loader: Iterable[Any], team: Team, *key: int) -> Iterator[tuple[Any, bool]]:
    """This process's batches, and whether each is its own; all random numbers follow the key.

    The order is drawn alike in all processes, what is done to the batches in each by its own
    numbers. Of a loader that is no :class:`~torch.utils.data.DataLoader`, every process goes
    through all batches.
    """
    seed_all(*key)
    if isinstance(loader, DataLoader):
        _seed_generators(loader, key)
    if not _can_choose(loader):
        yield from team.share(loader)
        return
    chosen = list(team.share(loader.batch_sampler))  # type: ignore[attr-defined]
    seed_all(*key, team.rank + 1)
    part = _with_batches(loader, [batch for batch, _ in chosen])
    yield from zip(part, (own for _, own in chosen), strict=True)


def _seed_generators(loader: DataLoader, key: tuple[int, ...]) -> None:
    """The loader's own generators, which would else remember the epochs before."""
    if isinstance(loader.sampler, DistributedSampler):
        raise ValueError(
            "Trainer: Expected a loader without a DistributedSampler: each process is given its "
            "batches of an ordinary one"
        )
    for owner in (loader, loader.sampler):
        generator = getattr(owner, "generator", None)
        if isinstance(generator, torch.Generator):
            generator.manual_seed(derive(*key))


def _can_choose(loader: Any) -> bool:
    """Whether the batches can be chosen by their indices, before anything is read."""
    return (
        isinstance(loader, DataLoader)
        and type(loader).__iter__ is DataLoader.__iter__
        and loader.batch_sampler is not None
        and not isinstance(loader.dataset, IterableDataset)
    )


def _with_batches(loader: Any, batches: list[Any]) -> DataLoader:
    """The same loader over the given lists of indices."""
    same = ("collate_fn", "num_workers", "pin_memory", "timeout", "worker_init_fn",
            "multiprocessing_context", "generator", "prefetch_factor")  # fmt: skip
    options = {name: getattr(loader, name) for name in same}
    return DataLoader(loader.dataset, batch_sampler=batches, **options)


def move(batch: Any, device: torch.device) -> Any:
    """The batch on a device, whatever holds its tensors."""
    if isinstance(batch, (list, tuple)):
        moved = [move(part, device) for part in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    if isinstance(batch, dict):
        return {name: move(part, device) for name, part in batch.items()}
    if isinstance(batch, Tensor) or callable(getattr(batch, "to", None)):
        return batch.to(device)
    return batch
