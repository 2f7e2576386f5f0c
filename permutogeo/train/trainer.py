"""Training of a model with checkpoints, logs and reproducible random numbers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from permutogeo.train.checkpoint import load_weights
from permutogeo.train.evaluation import evaluate_loader
from permutogeo.train.folder_lock import lock_folder
from permutogeo.train.log import Row, check_matplotlib
from permutogeo.train.losses import Step, resolve_loss
from permutogeo.train.metrics import Metric
from permutogeo.train.process_group import ProcessGroup
from permutogeo.train.rng import preserve_rng_state
from permutogeo.train.run_folder import BEST, Checkpoints
from permutogeo.train.schedules import Schedule, resolve_schedule
from permutogeo.train.training_run import TrainingRun

Parameters = Iterable[torch.nn.Parameter]
MakeOptimizer = Callable[[Parameters], torch.optim.Optimizer]


class Trainer:
    r"""Trains a model. Equal seeds give equal weights bit by bit, whether interrupted or not.

    Started by ``torchrun``, the same program trains in several processes: the batches are split
    over the processes, gradients are averaged weighted by the number of elements, and rank 0 writes
    the files. One step of two processes equals one step of a single process on both batches.

    Args:
        model: The model to train, in place. Batches are moved to its device.
        loss: ``"mse"``, ``"logistic"`` or a function ``(model, batch) -> (sum, count)``, see
            ``permutogeo.train.losses``.
        optimizer: ``"sgd"`` (momentum 0.9, weight decay 0.0005), ``"adam"``, or a function from
            parameters to an optimizer, such as ``partial(torch.optim.AdamW, lr=0.01)``.
        lr: Learning rate of a named optimizer.
        schedule: Factor of the learning rate over the run: ``"constant"``, ``"cosine"``,
            ``"one_cycle"`` or a function of the progress in [0, 1].
        epochs: Number of passes over the training data.
        seed: Seed of the order of the batches and of all random numbers drawn in training.
        checkpoints: A folder to write to, or :class:`Checkpoints` to resume, to save within epochs
            or to choose which epoch is the best; by default nothing is written.
        metric: Metric to evaluate on the validation data beside the loss.
        stop: Called with the row of each epoch; training ends when it returns true. A run that is
            resumed with another ``stop`` may continue.
        report: Called with the row of each epoch, such as ``print``.
        progress: Whether to show a progress bar; by default if standard error is a terminal.
        find_unused_parameters: Passed to :class:`~torch.nn.parallel.DistributedDataParallel`, for
            models that do not use all parameters in each step.

    Example:
        >>> import torch
        >>> from permutogeo.train import Trainer
        >>> x = torch.linspace(-1, 1, 32).unsqueeze(1)
        >>> batches = [(x, 3 * x)]
        >>> trainer = Trainer(torch.nn.Linear(1, 1), "mse", "adam", lr=0.1, epochs=100)
        >>> rows = trainer.fit(batches, batches)
        >>> rows[-1]["val_loss"] < 0.01
        True
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss: str | Step = "mse",
        optimizer: str | MakeOptimizer = "sgd",
        *,
        lr: float = 0.01,
        schedule: str | Schedule | None = None,
        epochs: int = 10,
        seed: int = 0,
        checkpoints: Checkpoints | str | os.PathLike[str] | None = None,
        metric: Metric | None = None,
        stop: Callable[[Row], bool] | None = None,
        report: Callable[[Row], Any] | None = None,
        progress: bool | None = None,
        find_unused_parameters: bool = False,
    ):
        _check_model(model)
        _check_numbers(lr=lr, epochs=epochs, seed=seed)
        self.model = model
        self.step = resolve_loss(loss)
        self.make_optimizer = _resolve_optimizer(optimizer, lr)
        self.schedule = resolve_schedule(schedule)
        self.epochs = epochs
        self.seed = seed
        self.checkpoints = (
            checkpoints if isinstance(checkpoints, Checkpoints) else Checkpoints(checkpoints)
        )
        folder = self.checkpoints.folder
        self.folder = None if folder is None else Path(folder)
        self.metric = metric
        self.stop = stop
        self.report = report
        self.progress = progress
        self.find_unused_parameters = find_unused_parameters
        if self.folder is not None:
            check_matplotlib()
            self.folder.mkdir(parents=True, exist_ok=True)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device

    def fit(self, train: Iterable[Any], val: Iterable[Any] | None = None) -> list[Row]:
        """Train, and evaluate after each epoch.

        The first Ctrl-C ends training after the current step and writes a checkpoint to resume
        from; a second one stops at once.

        Args:
            train: Training batches, usually a :class:`~torch.utils.data.DataLoader` that shuffles.
            val: Validation batches.

        Returns:
            One row per epoch with ``epoch``, ``steps``, ``seconds``, ``lr``, ``train_loss``,
            ``val_loss`` and the values of ``metric``.
        """
        group = ProcessGroup(self.device)
        with preserve_rng_state(), lock_folder(self.folder if group.is_main else None):
            return TrainingRun(self, group, train, val).run()

    def evaluate(self, loader: Iterable[Any]) -> Row:
        """Return ``loss`` and the values of ``metric`` over a loader, in evaluation mode."""
        with preserve_rng_state():
            return evaluate_loader(self, ProcessGroup(self.device), loader)

    def best(self, rows: list[Row]) -> Row:
        """Return the best row by ``checkpoints.monitor``, the first of several equal ones."""
        return self.checkpoints.best(rows)

    def load_best(self) -> None:
        """Load the weights of the best epoch into the model."""
        if self.folder is None:
            raise ValueError("Trainer: Expected 'checkpoints' with a folder (got none)")
        load_weights(self.model, self.folder / BEST)


def _resolve_optimizer(optimizer: str | MakeOptimizer, lr: float) -> MakeOptimizer:
    """Return the constructor of a named optimizer; a function is returned unchanged."""
    if callable(optimizer):
        return optimizer
    if optimizer == "sgd":
        return lambda parameters: torch.optim.SGD(parameters, lr, 0.9, weight_decay=5e-4)
    if optimizer == "adam":
        return lambda parameters: torch.optim.Adam(parameters, lr)
    raise ValueError(f"Expected 'optimizer' in sgd, adam, or a function (got {optimizer!r})")


def _check_model(model: torch.nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if is_lazy(parameter):
            raise ValueError(
                f"Trainer: Expected a model without lazy parameters (got '{name}'); call the model "
                f"once before"
            )
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError("Trainer: Expected a model with trainable parameters (got none)")


def _check_numbers(lr: float, epochs: int, seed: int) -> None:
    if not lr > 0:
        raise ValueError(f"Trainer: Expected 'lr' above 0 (got {lr})")
    for name, value, least in (("epochs", epochs, 1), ("seed", seed, 0)):
        if not isinstance(value, int) or value < least:
            raise ValueError(f"Trainer: Expected an integer '{name}' >= {least} (got {value!r})")
