"""What a model does on batches that it does not learn from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from permutogeo.train._batches import deal, move
from permutogeo.train._team import Team
from permutogeo.train.log import Row

if TYPE_CHECKING:
    from permutogeo.train.trainer import Trainer

# The stream of random numbers, beside that of training.
_MEASURE = 1


@torch.no_grad()
def measure(trainer: Trainer, team: Team, loader: Iterable[Any]) -> Row:
    """Loss and figures of a loader, summed over all processes."""
    was_training = trainer.model.training
    trainer.model.eval()
    sums: dict[str, Tensor] = {}
    for part in _parts(trainer, team, loader):
        sums = {name: part[name] + sums.get(name, 0.0) for name in part}
    trainer.model.train(was_training)
    if not sums:
        raise ValueError("Trainer: Expected batches to measure (got none)")
    sums = team.sums(sums)
    loss, count = sums.pop("").tolist()
    row = {"loss": loss / count if count else math.nan}
    return row if trainer.metric is None else {**row, **trainer.metric.summary(sums)}


def _parts(trainer: Trainer, team: Team, loader: Iterable[Any]) -> Iterator[dict[str, Tensor]]:
    """The sums of each batch; those of a batch that another process has are 0."""
    for batch, own in deal(loader, team, trainer.seed, _MEASURE):
        batch = move(batch, trainer.device)
        loss, count = trainer.step(trainer.model, batch)
        part = {"": torch.tensor([float(loss), float(count)], dtype=torch.float64)}
        if trainer.metric is not None:
            part.update(trainer.metric.measure(trainer.model, batch))
        yield {name: value.double() * own for name, value in part.items()}
