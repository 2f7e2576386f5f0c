"""Files of a training run: checkpoint, best weights, log and curves."""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from permutogeo.train.checkpoint import assign_weights, load_state, save_state, save_weights
from permutogeo.train.log import Row, draw_curve, write_csv
from permutogeo.train.process_group import ProcessGroup

if TYPE_CHECKING:
    from permutogeo.train.trainer import Trainer

LAST, BEST, LOG, CURVE = "last.safetensors", "best.safetensors", "log.csv", "curve.png"


@dataclass(frozen=True)
class Checkpoints:
    """Settings of the checkpoints of a :class:`~permutogeo.train.Trainer`.

    Args:
        folder: Folder for ``last.safetensors`` (the checkpoint to resume from),
            ``best.safetensors`` (the weights of the best epoch), ``log.csv`` and ``curve.png``;
            ``None`` writes nothing.
        resume: Continue from ``last.safetensors`` if it exists; by default start over.
        save_every: Number of steps between checkpoints within an epoch; by default only at the
            end of each epoch.
        monitor: Column that decides which epoch is the best; without validation data
            ``"val_loss"`` means the training loss.
        maximize: Whether larger values of ``monitor`` are better.
    """

    folder: str | os.PathLike[str] | None = None
    resume: bool = False
    save_every: int | None = None
    monitor: str = "val_loss"
    maximize: bool = False

    def __post_init__(self) -> None:
        every = self.save_every
        if every is not None and (not isinstance(every, int) or every < 1):
            raise ValueError(f"Expected an integer 'save_every' >= 1 (got {every!r})")

    def best(self, rows: list[Row]) -> Row:
        """Return the best row, the first of several equal ones."""
        column = self.monitor
        if column not in rows[0] and column == "val_loss":
            column = "train_loss"
        if column not in rows[0]:
            raise ValueError(f"Expected 'monitor' among {', '.join(rows[0])} (got {column!r})")
        sign = -1.0 if self.maximize else 1.0
        return min(
            rows, key=lambda row: math.inf if math.isnan(row[column]) else sign * row[column]
        )


@dataclass
class RunState:
    """Progress of a run.

    Attributes:
        epoch: Number of completed epochs.
        epoch_steps: Number of completed steps of the current epoch.
        steps: Number of completed steps of the run.
        seconds: Wall time of the steps.
        loss_sum: Sum of the losses of the current epoch.
        loss_count: Number of elements in ``loss_sum``.
        rows: The log, one row per epoch.
    """

    epoch: int = 0
    epoch_steps: int = 0
    steps: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0
    loss_count: float = 0.0
    rows: list[Row] = field(default_factory=list)


class RunFolder:
    """Reads and writes the files of a run; does nothing if the trainer has no folder."""

    def __init__(self, trainer: Trainer, group: ProcessGroup, optimizer: torch.optim.Optimizer):
        self.trainer, self.group, self.optimizer = trainer, group, optimizer
        self.path = trainer.folder

    def restore(self) -> tuple[RunState, Tensor | None]:
        """Load the checkpoint of a resumed run; otherwise remove the files of earlier runs.

        Returns:
            The state of the run, and the random states if the checkpoint is within an epoch.
        """
        state, rng_state = RunState(), None
        if self.path is None:
            return state, rng_state
        if self.trainer.checkpoints.resume and (self.path / LAST).is_file():
            state, rng_state = self._load(self.path / LAST)
        self.group.barrier()  # no process removes a file that another still looks for
        if self.group.is_main:
            self._clean(everything=not state.steps)
        return state, rng_state

    def _clean(self, everything: bool) -> None:
        """Remove temporary files that a killed run left, or all files of earlier runs."""
        assert self.path is not None
        for name in (LAST, BEST, LOG, CURVE):
            stem, _, suffix = name.partition(".")
            for path in self.path.glob(f".{stem}.{'?' * 16}.{suffix}"):
                path.unlink(missing_ok=True)
            if everything:
                (self.path / name).unlink(missing_ok=True)

    def save(self, state: RunState, rng_state: Tensor | None) -> None:
        """Write the checkpoint; within an epoch it includes the random states."""
        if self.path is None:
            return
        content = {
            "settings": self._settings(),
            "progress": asdict(state),
            "random": None if rng_state is None else self.group.gather(rng_state),
            "model": dict(self.trainer.model.state_dict()),
            "optimizer": self.optimizer.state_dict(),
        }
        if self.group.is_main:
            save_state(content, self.path / LAST)

    def save_epoch(self, state: RunState, is_best: bool) -> None:
        """Write the log, the checkpoint and, for the best epoch, the weights."""
        if self.path is not None and self.group.is_main:
            if is_best:
                save_weights(self.trainer.model, self.path / BEST)
            write_csv(state.rows, self.path / LOG)
        self.save(state, None)

    def draw_curve(self, state: RunState) -> None:
        """Draw the log, if it has rows."""
        if self.path is not None and self.group.is_main and state.rows:
            draw_curve(state.rows, self.path / CURVE)

    def _settings(self) -> dict[str, Any]:
        """Return what must not change when a run is resumed."""
        first, *_ = self.optimizer.param_groups
        options: dict[str, Any] = {
            name: first[name] for name in ("momentum", "weight_decay", "betas") if name in first
        }
        return {
            "seed": self.trainer.seed,
            "optimizer": type(self.optimizer).__name__,
            "lr": first["initial_lr"],
            **options,
        }

    def _load(self, path: Path) -> tuple[RunState, Tensor | None]:
        content = load_state(path)
        before, now = content["settings"], self._settings()
        for name in {**before, **now}:
            if before.get(name) != now.get(name):
                raise ValueError(
                    f"'{path}': Expected '{name}' of {before.get(name)!r} to resume this run "
                    f"(got {now.get(name)!r}); to start over, set resume=False or choose another "
                    f"folder"
                )
        rng_state = content["random"]
        if rng_state is not None and len(rng_state) != self.group.size:
            raise ValueError(
                f"'{path}': Expected {len(rng_state)} processes to continue within an epoch "
                f"(got {self.group.size})"
            )
        assign_weights(self.trainer.model, content["model"], path)
        self.optimizer.load_state_dict(content["optimizer"])
        return RunState(**content["progress"]), rng_state
