"""One trainer for all experiments."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from permutogeo.train._keeper import BEST
from permutogeo.train._measure import measure
from permutogeo.train._random import kept
from permutogeo.train._run import Run
from permutogeo.train._team import Team
from permutogeo.train.checkpoint import load_weights
from permutogeo.train.log import Row, check_drawing
from permutogeo.train.losses import Step, step_of
from permutogeo.train.metrics import Metric
from permutogeo.train.schedules import Schedule, schedule_of

Parameters = Iterable[torch.nn.Parameter]
MakeOptimizer = Callable[[Parameters], torch.optim.Optimizer]


class Trainer:
    r"""Trains a model; the same seed gives the same model, bit for bit, interrupted or not.

    Started by ``torchrun``, the same program trains in several processes: each takes its share of
    the batches, gradients are averaged by the count of what they are made from, and rank 0 writes.
    A step of two processes is thus one of a single process with both of their batches.

    Args:
        model: What to train; it holds the last weights afterwards. Where it is, batches go.
        loss: ``"mse"`` or ``"logistic"``, or a function ``(model, batch) -> (sum, count)``, see
            :mod:`permutogeo.train.losses`.
        optimizer: ``"sgd"``, ``"adam"``, or a function of the parameters.
        lr: The learning rate.
        momentum: Of ``"sgd"``.
        weight_decay: By default 0.0005 for ``"sgd"`` and 0 for ``"adam"``.
        schedule: Factor of the learning rate over the run: ``"constant"``, ``"cosine"``,
            ``"one_cycle"`` or a function of the progress in [0, 1].
        epochs: How often to go through the training part.
        seed: Of the order of the data and all that is random in them and in the model.
        folder: Where to write ``last.safetensors`` (to continue from), ``best.safetensors`` (the
            weights of the best epoch), ``log.csv`` and ``curve.png``; by default nowhere.
        resume: Continue from ``last.safetensors`` if there is one, else begin anew.
        save_every: After how many steps to save within an epoch; by default only after each.
        metric: What to measure on the validation part beside the loss.
        monitor: The column that says which epoch is best; ``"val_loss"`` without a validation part
            means the training loss.
        maximize: Whether a larger value is better there.
        stop: Called with the row of each epoch; training ends when it returns true. A
            run that is continued with one that does not goes on from there.
        report: Called with the row of each epoch, such as ``print``.
        progress: Whether to show a bar; by default where standard error is a terminal.
        find_unused_parameters: Of :class:`~torch.nn.parallel.DistributedDataParallel`, for models
            that do not use all parameters in each step.

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
        momentum: float = 0.9,
        weight_decay: float | None = None,
        schedule: str | Schedule | None = None,
        epochs: int = 10,
        seed: int = 0,
        folder: str | os.PathLike[str] | None = None,
        resume: bool = False,
        save_every: int | None = None,
        metric: Metric | None = None,
        monitor: str = "val_loss",
        maximize: bool = False,
        stop: Callable[[Row], bool] | None = None,
        report: Callable[[Row], Any] | None = None,
        progress: bool | None = None,
        find_unused_parameters: bool = False,
    ):
        _check_model(model)
        _check_numbers(lr=lr, epochs=epochs, seed=seed, save_every=save_every)
        self.model = model
        self.step = step_of(loss)
        self.lr = lr
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.make_optimizer = self._optimizer_of(optimizer)
        self.schedule = schedule_of(schedule)
        self.epochs = epochs
        self.seed = seed
        self.folder = None if folder is None else Path(folder)
        self.resume = resume
        self.save_every = save_every
        self.metric = metric
        self.monitor = monitor
        self.maximize = maximize
        self.stop = stop
        self.report = report
        self.progress = progress
        self.find_unused_parameters = find_unused_parameters
        if self.folder is not None:
            check_drawing()
            self.folder.mkdir(parents=True, exist_ok=True)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def fit(self, train: Iterable[Any], val: Iterable[Any] | None = None) -> list[Row]:
        """Train, and measure after each epoch.

        A first Ctrl-C ends training after the step it is in, and leaves a checkpoint to continue
        from; a second one ends it at once.

        Args:
            train: The batches of an epoch, usually a :class:`~torch.utils.data.DataLoader` that
                shuffles.
            val: Those of the validation part.

        Returns:
            A row for each epoch, with ``epoch``, ``steps``, ``seconds``, ``lr``, ``train_loss``,
            ``val_loss`` and the figures of ``metric``.
        """
        with kept():
            return Run(self, Team(self.device), train, val).go()

    def evaluate(self, loader: Iterable[Any]) -> Row:
        """``loss`` and the figures of ``metric`` over all batches, with the model in ``eval``."""
        with kept():
            return measure(self, Team(self.device), loader)

    def best(self, rows: list[Row]) -> Row:
        """The best of the rows, the first of equals."""
        column = self.monitor
        if column not in rows[0] and column == "val_loss":
            column = "train_loss"
        if column not in rows[0]:
            raise ValueError(f"Expected 'monitor' among {', '.join(rows[0])} (got {column!r})")
        sign = -1.0 if self.maximize else 1.0
        return min(
            rows, key=lambda row: math.inf if math.isnan(row[column]) else sign * row[column]
        )

    def load_best(self) -> None:
        """Give the model the weights of the best epoch."""
        if self.folder is None:
            raise ValueError("Trainer: Expected a 'folder', which keeps them (got none)")
        load_weights(self.model, self.folder / BEST)

    def _optimizer_of(self, optimizer: str | MakeOptimizer) -> MakeOptimizer:
        if callable(optimizer):
            return optimizer
        decay = self.weight_decay
        if optimizer == "sgd":
            return lambda parameters: torch.optim.SGD(
                parameters, self.lr, self.momentum, weight_decay=5e-4 if decay is None else decay
            )
        if optimizer == "adam":
            return lambda parameters: torch.optim.Adam(
                parameters, self.lr, weight_decay=0.0 if decay is None else decay
            )
        raise ValueError(f"Expected 'optimizer' in sgd, adam, or a function (got {optimizer!r})")


def _check_model(model: torch.nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if is_lazy(parameter):
            raise ValueError(
                f"Trainer: Expected a model whose sizes are known ('{name}' waits for its first "
                f"input); call it once before"
            )
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError("Trainer: Expected a model with something to learn (got no parameter)")


def _check_numbers(lr: float, epochs: int, seed: int, save_every: int | None) -> None:
    if not lr > 0:
        raise ValueError(f"Trainer: Expected 'lr' above 0 (got {lr})")
    for name, value, least in (
        ("epochs", epochs, 1),
        ("seed", seed, 0),
        ("save_every", save_every, 1),
    ):
        if value is not None and (not isinstance(value, int) or value < least):
            raise ValueError(f"Trainer: Expected an integer '{name}' >= {least} (got {value!r})")
