"""The training loop: epochs and steps of one call of :meth:`permutogeo.train.Trainer.fit`."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from torch import Tensor

from permutogeo.train.batches import seeded_batches, to_device
from permutogeo.train.evaluation import evaluate_loader
from permutogeo.train.interrupt import InterruptHandler
from permutogeo.train.log import ProgressBar, Row
from permutogeo.train.process_group import ProcessGroup
from permutogeo.train.rng import get_rng_state, set_rng_state
from permutogeo.train.run_folder import RunFolder

if TYPE_CHECKING:
    from permutogeo.train.trainer import Trainer

# Random stream of training; evaluation uses stream 1.
_STREAM = 0


class TrainingRun:
    """Trains the model of a trainer, from the start or from a checkpoint."""

    def __init__(
        self,
        trainer: Trainer,
        group: ProcessGroup,
        train: Iterable[Any],
        val: Iterable[Any] | None,
    ):
        self.trainer, self.group, self.train, self.val = trainer, group, train, val
        parameters = [p for p in trainer.model.parameters() if p.requires_grad]
        self.optimizer = trainer.make_optimizer(parameters)
        for param_group in self.optimizer.param_groups:
            param_group.setdefault("initial_lr", param_group["lr"])
        self.folder = RunFolder(trainer, group, self.optimizer)
        self.state, self.rng_state = self.folder.restore()
        # After loading: wrapping broadcasts the weights of rank 0.
        self.model = group.wrap(trainer.model, trainer.find_unused_parameters)
        self._clock = 0.0

    def run(self) -> list[Row]:
        """Train until the last epoch, or until ``stop`` returns true; return the log."""
        shown = self.trainer.progress if self.group.is_main else False
        with InterruptHandler() as self.interrupt, ProgressBar(shown) as self.bar:
            try:
                while self.state.epoch < self.trainer.epochs and not self._should_stop():
                    self._train_epoch()
                    self._finish_epoch()
            finally:
                self.folder.draw_curve(self.state)
        self.group.barrier()  # other processes may read what rank 0 has written
        return self.state.rows

    def _should_stop(self) -> bool:
        """Return whether to stop after the last epoch; also evaluated when a run is resumed."""
        stop, rows = self.trainer.stop, self.state.rows
        # Rank 0 decides for all: wall times differ.
        decided = self.group.is_main and stop is not None and rows and stop(dict(rows[-1]))
        return self.group.sum(float(bool(decided)))[0] > 0

    def _train_epoch(self) -> None:
        """Run the remaining steps of the current epoch."""
        state, trainer = self.state, self.trainer
        self.model.train()
        total = self.group.num_steps(self.train)
        text = f"epoch {state.epoch + 1}/{trainer.epochs}"
        self.bar.start(text, total, state.epoch_steps)
        batches = seeded_batches(self.train, self.group, trainer.seed, _STREAM, state.epoch)
        for _ in range(state.epoch_steps):
            next(batches)
        if self.rng_state is not None:
            set_rng_state(self.rng_state[self.group.rank])
            self.rng_state = None
        self._clock = time.perf_counter()
        every = trainer.checkpoints.save_every
        for batch, counts in batches:
            self._set_lr(state.epoch + (state.epoch_steps / total if total else 0.0))
            interrupted = self._step(to_device(batch, trainer.device), counts)
            self.bar.advance(f"{text}, loss {state.loss_sum / max(state.loss_count, 1e-30):.4g}")
            if interrupted or (every and state.steps % every == 0):
                self._update_seconds()
                self.folder.save(state, get_rng_state())
            if interrupted:
                self._raise_interrupt()
        self._update_seconds()

    def _set_lr(self, epochs: float) -> None:
        factor = self.trainer.schedule(epochs / self.trainer.epochs)
        for param_group in self.optimizer.param_groups:
            param_group["lr"] = param_group["initial_lr"] * factor

    def _step(self, batch: Any, counts: bool) -> bool:
        """Run one optimizer step; return whether any process was interrupted."""
        state = self.state
        self.optimizer.zero_grad()
        loss, number = self.trainer.step(self.model, batch)
        if not isinstance(loss, Tensor) or loss.dim() != 0:
            raise TypeError(
                f"Expected a step that returns a scalar tensor and a count (got {loss})"
            )
        parts = (float(loss.detach()), float(number)) if counts else (0.0, 0.0)
        total, count, interrupted = self.group.sum(*parts, float(self.interrupt.requested))
        if not math.isfinite(total):
            raise FloatingPointError(
                f"Expected a finite loss (got {total} in epoch {state.epoch + 1}, "
                f"step {state.epoch_steps + 1}); lower 'lr', or look for a value out of range in "
                f"that batch"
            )
        if count > 0:
            # DistributedDataParallel averages gradients over processes; the factor makes the
            # average the gradient of the mean over the elements of all processes.
            (loss * (counts * self.group.size / count)).backward()
            self.optimizer.step()
        state.loss_sum, state.loss_count = state.loss_sum + total, state.loss_count + count
        state.epoch_steps, state.steps = state.epoch_steps + 1, state.steps + 1
        return interrupted > 0

    def _finish_epoch(self) -> None:
        """Evaluate, log and save."""
        state, trainer = self.state, self.trainer
        if state.loss_count <= 0:
            raise ValueError("Trainer: Expected something to learn from (got no counted target)")
        row = self._row()
        state.rows.append(row)
        state.epoch, state.epoch_steps = state.epoch + 1, 0
        state.loss_sum, state.loss_count = 0.0, 0.0
        self.folder.save_epoch(state, is_best=trainer.best(state.rows) is row)
        if trainer.report is not None and self.group.is_main:
            trainer.report(dict(row))
        if self.group.sum(float(self.interrupt.requested))[0] > 0:
            self._raise_interrupt()

    def _row(self) -> Row:
        state = self.state
        row: Row = {"epoch": state.epoch + 1, "steps": state.steps, "seconds": state.seconds}
        row["lr"] = self.optimizer.param_groups[0]["lr"]
        row["train_loss"] = state.loss_sum / state.loss_count
        if self.val is not None:
            measured = evaluate_loader(self.trainer, self.group, self.val)
            row["val_loss"] = measured.pop("loss")
            row.update(measured)
        return row

    def _raise_interrupt(self) -> NoReturn:
        self.group.barrier()
        state = self.state
        hint = "" if self.trainer.folder is None else "; set resume=True to continue"
        self.interrupt.raise_interrupt(
            f"stopped after {state.epoch} epochs and {state.epoch_steps} steps{hint}"
        )

    def _update_seconds(self) -> None:
        now = time.perf_counter()
        self.state.seconds, self._clock = self.state.seconds + now - self._clock, now
