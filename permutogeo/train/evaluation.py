"""Evaluation of a model on a loader: loss and metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from permutogeo.train.batches import seeded_batches, to_device
from permutogeo.train.log import Row
from permutogeo.train.process_group import ProcessGroup

if TYPE_CHECKING:
    from permutogeo.train.trainer import Trainer

# Random stream of evaluation; training uses stream 0.
_STREAM = 1


@torch.no_grad()
def evaluate_loader(trainer: Trainer, group: ProcessGroup, loader: Iterable[Any]) -> Row:
    """Return the loss and the metrics over a loader, summed over all processes."""
    was_training = trainer.model.training
    trainer.model.eval()
    sums: dict[str, Tensor] = {}
    for part in _batch_sums(trainer, group, loader):
        sums = {name: part[name] + sums.get(name, 0.0) for name in part}
    trainer.model.train(was_training)
    if not sums:
        raise ValueError("Trainer: Expected batches to measure (got none)")
    sums = group.sum_tensors(sums)
    loss, count = sums.pop("").tolist()
    row = {"loss": loss / count if count else math.nan}
    return row if trainer.metric is None else {**row, **trainer.metric.summary(sums)}


def _batch_sums(
    trainer: Trainer, group: ProcessGroup, loader: Iterable[Any]
) -> Iterator[dict[str, Tensor]]:
    """Yield the sums of each batch; zeros for a batch that does not count."""
    for batch, counts in seeded_batches(loader, group, trainer.seed, _STREAM):
        batch = to_device(batch, trainer.device)
        loss, count = trainer.step(trainer.model, batch)
        part = {"": torch.tensor([float(loss), float(count)], dtype=torch.float64)}
        if trainer.metric is not None:
            part.update(trainer.metric.measure(trainer.model, batch))
        yield {name: value.double() * counts for name, value in part.items()}
