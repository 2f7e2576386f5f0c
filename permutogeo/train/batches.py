"""Batches of an epoch, in an order that depends only on the seed and the epoch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.distributed import DistributedSampler

from permutogeo.train.process_group import ProcessGroup
from permutogeo.train.rng import derive_seed, seed_all


def seeded_batches(
    loader: Iterable[Any], group: ProcessGroup, *key: int
) -> Iterator[tuple[Any, bool]]:
    """Seed all generators by the key and yield the batches of this process.

    All processes draw the same order; the random numbers used while loading a batch differ by
    rank. If ``loader`` is no :class:`~torch.utils.data.DataLoader`, every process iterates over
    all batches and keeps its own.

    Yields:
        A batch, and whether it counts (see :meth:`ProcessGroup.split`).
    """
    seed_all(*key)
    if isinstance(loader, DataLoader):
        _seed_generators(loader, key)
    if not _has_batch_indices(loader):
        yield from group.split(loader)
        return
    chosen = list(group.split(loader.batch_sampler))  # type: ignore[attr-defined]
    seed_all(*key, group.rank + 1)
    part = _with_batches(loader, [batch for batch, _ in chosen])
    yield from zip(part, (counts for _, counts in chosen), strict=True)


def _seed_generators(loader: DataLoader, key: tuple[int, ...]) -> None:
    """Seed the generators of the loader itself, whose states would carry over between epochs."""
    if isinstance(loader.sampler, DistributedSampler):
        raise ValueError(
            "Trainer: Expected a loader without a DistributedSampler (the trainer splits the "
            "batches over the processes)"
        )
    for owner in (loader, loader.sampler):
        generator = getattr(owner, "generator", None)
        if isinstance(generator, torch.Generator):
            generator.manual_seed(derive_seed(*key))


def _has_batch_indices(loader: Any) -> bool:
    """Return whether batches can be selected by their indices, before any data is read."""
    return (
        isinstance(loader, DataLoader)
        and type(loader).__iter__ is DataLoader.__iter__
        and loader.batch_sampler is not None
        and not isinstance(loader.dataset, IterableDataset)
    )


def _with_batches(loader: Any, batches: list[Any]) -> DataLoader:
    """Return a copy of the loader over the given lists of indices."""
    same = ("collate_fn", "num_workers", "pin_memory", "timeout", "worker_init_fn",
            "multiprocessing_context", "generator", "prefetch_factor")  # fmt: skip
    options = {name: getattr(loader, name) for name in same}
    return DataLoader(loader.dataset, batch_sampler=batches, **options)


def to_device(batch: Any, device: torch.device) -> Any:
    """Move the tensors of a batch to a device; tuples, lists and dictionaries may be nested."""
    if isinstance(batch, (list, tuple)):
        moved = [to_device(part, device) for part in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    if isinstance(batch, dict):
        return {name: to_device(part, device) for name, part in batch.items()}
    if isinstance(batch, Tensor) or callable(getattr(batch, "to", None)):
        return batch.to(device)
    return batch
