"""One run of a trainer: its epochs and steps."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from torch import Tensor

from permutogeo.train import _random
from permutogeo.train._batches import deal, move
from permutogeo.train._interrupt import Interrupt
from permutogeo.train._keeper import Keeper
from permutogeo.train._measure import measure
from permutogeo.train._team import Team
from permutogeo.train.log import Bar, Row

if TYPE_CHECKING:
    from permutogeo.train.trainer import Trainer

# The stream of random numbers, beside that of measuring.
_TRAIN = 0


class Run:
    """Trains the model of a trainer, from the beginning or from a checkpoint."""

    def __init__(
        self, trainer: Trainer, team: Team, train: Iterable[Any], val: Iterable[Any] | None
    ):
        self.trainer, self.team, self.train, self.val = trainer, team, train, val
        learned = [p for p in trainer.model.parameters() if p.requires_grad]
        self.optimizer = trainer.make_optimizer(learned)
        for group in self.optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.keeper = Keeper(trainer, team, self.optimizer)
        self.at, self.random = self.keeper.begin()
        # After loading: it gives all processes the weights of the first.
        self.model = team.parallel(trainer.model, trainer.find_unused_parameters)
        self._clock = 0.0

    def go(self) -> list[Row]:
        """Train to the end."""
        shown = self.trainer.progress if self.team.is_main else False
        with Interrupt() as self.interrupt, Bar(shown) as self.bar:
            try:
                while self.at.epoch < self.trainer.epochs and not self._is_enough():
                    self._train()
                    self._finish_epoch()
            finally:
                self.keeper.draw(self.at)
        self.team.wait()  # until the first process has written what the others may read
        return self.at.rows

    def _is_enough(self) -> bool:
        """Whether the last epoch is one to stop after; asked anew where a run is continued."""
        stop, rows = self.trainer.stop, self.at.rows
        # One process decides: their clocks differ.
        decided = self.team.is_main and stop is not None and rows and stop(dict(rows[-1]))
        return self.team.total(float(bool(decided)))[0] > 0

    def _train(self) -> None:
        """The steps of the next epoch that are not done yet."""
        at, trainer = self.at, self.trainer
        self.model.train()
        total = self.team.steps(self.train)
        text = f"epoch {at.epoch + 1}/{trainer.epochs}"
        self.bar.start(text, total, at.done)
        batches = deal(self.train, self.team, trainer.seed, _TRAIN, at.epoch)
        for _ in range(at.done):
            next(batches)
        if self.random is not None:
            _random.unpack(self.random[self.team.rank])
            self.random = None
        self._clock = time.perf_counter()
        for batch, own in batches:
            self._set_lr(at.epoch + (at.done / total if total else 0.0))
            asked = self._step(move(batch, trainer.device), own)
            self.bar.advance(f"{text}, loss {at.loss / max(at.count, 1e-30):.4g}")
            if asked or (trainer.save_every and at.steps % trainer.save_every == 0):
                self._tick()
                self.keeper.save(at, _random.pack())
            if asked:
                self._end()
        self._tick()

    def _set_lr(self, epochs: float) -> None:
        factor = self.trainer.schedule(epochs / self.trainer.epochs)
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor

    def _step(self, batch: Any, own: bool) -> bool:
        """One step of the optimizer; returns whether any process was asked to end."""
        at = self.at
        self.optimizer.zero_grad()
        loss, number = self.trainer.step(self.model, batch)
        if not isinstance(loss, Tensor) or loss.dim() != 0:
            raise TypeError(
                f"Expected a step that returns a scalar tensor and a count (got {loss})"
            )
        parts = (float(loss.detach()), float(number)) if own else (0.0, 0.0)
        total, count, asked = self.team.total(*parts, float(self.interrupt.asked))
        if not math.isfinite(total):
            raise FloatingPointError(
                f"Expected a finite loss (got {total} in epoch {at.epoch + 1}, "
                f"step {at.done + 1}); lower 'lr', or look for a value out of range in that batch"
            )
        if count > 0:
            # Of the processes' gradients the mean is taken: this makes it the one of all they have.
            (loss * (own * self.team.size / count)).backward()
            self.optimizer.step()
        at.loss, at.count = at.loss + total, at.count + count
        at.done, at.steps = at.done + 1, at.steps + 1
        return asked > 0

    def _finish_epoch(self) -> None:
        """Measure, write down and save."""
        at, trainer = self.at, self.trainer
        if at.count <= 0:
            raise ValueError("Trainer: Expected something to learn from (got no counted target)")
        row = self._row()
        at.rows.append(row)
        at.epoch, at.done, at.loss, at.count = at.epoch + 1, 0, 0.0, 0.0
        self.keeper.save_epoch(at, is_best=trainer.best(at.rows) is row)
        if trainer.report is not None and self.team.is_main:
            trainer.report(dict(row))
        if self.team.total(float(self.interrupt.asked))[0] > 0:
            self._end()

    def _row(self) -> Row:
        at = self.at
        row: Row = {"epoch": at.epoch + 1, "steps": at.steps, "seconds": at.seconds}
        row["lr"] = self.optimizer.param_groups[0]["lr"]
        row["train_loss"] = at.loss / at.count
        if self.val is not None:
            measured = measure(self.trainer, self.team, self.val)
            row["val_loss"] = measured.pop("loss")
            row.update(measured)
        return row

    def _end(self) -> NoReturn:
        self.team.wait()
        hint = "" if self.trainer.folder is None else "; give resume=True to continue"
        self.interrupt.end(f"stopped after {self.at.epoch} epochs and {self.at.done} steps{hint}")

    def _tick(self) -> None:
        now = time.perf_counter()
        self.at.seconds, self._clock = self.at.seconds + now - self._clock, now
