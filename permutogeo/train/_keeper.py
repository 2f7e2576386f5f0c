"""The files of a run, and how it is continued from them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from permutogeo.train._team import Team
from permutogeo.train.checkpoint import load_state, put_weights, save_state, save_weights
from permutogeo.train.log import Row, draw_curve, write_csv

if TYPE_CHECKING:
    from permutogeo.train.trainer import Trainer

LAST, BEST, LOG, CURVE = "last.safetensors", "best.safetensors", "log.csv", "curve.png"


@dataclass
class Progress:
    """How far a run is.

    Attributes:
        epoch: Epochs that are finished.
        done: Steps of the next epoch that are.
        steps: All steps.
        seconds: Spent in them.
        loss: Summed over the steps of the next epoch.
        count: Likewise.
        rows: Of the epochs.
    """

    epoch: int = 0
    done: int = 0
    steps: int = 0
    seconds: float = 0.0
    loss: float = 0.0
    count: float = 0.0
    rows: list[Row] = field(default_factory=list)


class Keeper:
    """Writes and reads what a run keeps in its folder; without a folder it does nothing."""

    def __init__(self, trainer: Trainer, team: Team, optimizer: torch.optim.Optimizer):
        self.trainer, self.team, self.optimizer = trainer, team, optimizer
        self.folder = trainer.folder

    def begin(self) -> tuple[Progress, Tensor | None]:
        """Where to continue, with the random states there; else what would be taken for it goes."""
        at, random = Progress(), None
        if self.folder is None:
            return at, random
        if self.trainer.resume and (self.folder / LAST).is_file():
            at, random = self._load(self.folder / LAST)
        self.team.wait()  # none removes what another still looks for
        if not at.steps and self.team.is_main:
            for name in (LAST, BEST, LOG, CURVE):
                (self.folder / name).unlink(missing_ok=True)
        return at, random

    def save(self, at: Progress, random: Tensor | None) -> None:
        """Write the checkpoint; within an epoch it needs the states of the random numbers."""
        if self.folder is None:
            return
        state = {
            "settings": self._settings(),
            "progress": asdict(at),
            "random": None if random is None else self.team.gather(random),
            "model": dict(self.trainer.model.state_dict()),
            "optimizer": self.optimizer.state_dict(),
        }
        if self.team.is_main:
            save_state(state, self.folder / LAST)

    def save_epoch(self, at: Progress, is_best: bool) -> None:
        """Write what an epoch leaves."""
        if self.folder is not None and self.team.is_main:
            if is_best:
                save_weights(self.trainer.model, self.folder / BEST)
            write_csv(at.rows, self.folder / LOG)
        self.save(at, None)

    def draw(self, at: Progress) -> None:
        """Draw the curve of the epochs, if there are any."""
        if self.folder is not None and self.team.is_main and at.rows:
            draw_curve(at.rows, self.folder / CURVE)

    def _settings(self) -> dict[str, Any]:
        trainer = self.trainer
        return {
            "seed": trainer.seed,
            "optimizer": type(self.optimizer).__name__,
            "lr": trainer.lr,
            "momentum": trainer.momentum,
            "weight_decay": trainer.weight_decay,
        }

    def _load(self, path: Path) -> tuple[Progress, Tensor | None]:
        state = load_state(path)
        for name, value in self._settings().items():
            if state["settings"][name] != value:
                raise ValueError(
                    f"'{path}': Expected '{name}' of {state['settings'][name]!r}, as the run was "
                    f"begun with (got {value!r}); give resume=False or another folder to begin anew"
                )
        random = state["random"]
        if random is not None and len(random) != self.team.size:
            raise ValueError(
                f"'{path}': Expected {len(random)} processes to continue within an epoch "
                f"(got {self.team.size})"
            )
        put_weights(self.trainer.model, state["model"], path)
        self.optimizer.load_state_dict(state["optimizer"])
        return Progress(**state["progress"]), random
