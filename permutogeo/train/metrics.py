"""Metrics as sums over batches and processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from permutogeo.train.losses import Predict, predict


class Metric(ABC):
    """Base class of metrics: sums over batches, and the values computed from them."""

    @abstractmethod
    def measure(self, model: torch.nn.Module, batch: Any) -> dict[str, Tensor]:
        """Return the sums of one batch; names and shapes are the same for all batches."""

    @abstractmethod
    def summary(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """Return the metrics from the sums over all batches."""


class Mean(Metric):
    """Means of the quantities that a function returns.

    Args:
        measure: Called with model and batch; returns ``{name: (sum, count)}``.
    """

    def __init__(self, measure: Callable[[Any, Any], Mapping[str, tuple[Any, Any]]]):
        self._measure = measure

    def measure(self, model: torch.nn.Module, batch: Any) -> dict[str, Tensor]:
        return {
            name: torch.stack([torch.as_tensor(part, dtype=torch.float64).cpu() for part in pair])
            for name, pair in self._measure(model, batch).items()
        }

    def summary(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        return {name: float(pair[0] / pair[1]) for name, pair in sums.items()}


class Confusion(Metric):
    """Accuracy over all points, accuracy averaged over classes, and mean intersection over union.

    Averages are over the classes that occur in the targets.

    Args:
        num_classes: Number of classes.
        ignore: Label to ignore.
        predict: Called with model and batch; returns logits :math:`(N, L)` and classes
            :math:`(N)`.
    """

    def __init__(self, num_classes: int, ignore: int | None = None, predict: Predict = predict):
        self.num_classes = num_classes
        self.ignore = ignore
        self._predict = predict

    def measure(self, model: torch.nn.Module, batch: Any) -> dict[str, Tensor]:
        logits, target = self._predict(model, batch)
        return {"confusion": confusion(logits.argmax(1), target, self.num_classes, self.ignore)}

    def summary(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        return scores(sums["confusion"])


def confusion(label: Tensor, target: Tensor, num_classes: int, ignore: int | None = None) -> Tensor:
    """Return the confusion matrix ``[L, L]`` int64: rows are targets, columns are labels.

    Example:
        >>> import torch
        >>> from permutogeo.train import confusion, scores
        >>> table = confusion(torch.tensor([0, 1, 1]), torch.tensor([0, 1, 0]), num_classes=2)
        >>> scores(table)["mean_iou"]
        0.5
    """
    label, target = label.reshape(-1), target.reshape(-1)
    if len(label) != len(target):
        raise ValueError(f"Expected {len(target)} labels, one for each target (got {len(label)})")
    if ignore is not None:
        label, target = label[target != ignore], target[target != ignore]
    if len(target) and (int(target.min()) < 0 or int(target.max()) >= num_classes):
        got = f"{int(target.min())} to {int(target.max())}"
        raise ValueError(f"Expected targets in 0 to {num_classes - 1} (got {got})")
    cells = torch.bincount(target * num_classes + label, minlength=num_classes**2)
    return cells.view(num_classes, num_classes)


def scores(confusion: Tensor) -> dict[str, float]:
    """Return ``accuracy``, ``class_accuracy`` and ``mean_iou`` of a confusion matrix."""
    table = confusion.double()
    right, occurring = table.diag(), table.sum(1)
    seen = occurring > 0
    union = occurring + table.sum(0) - right
    return {
        "accuracy": float(right.sum() / table.sum()),
        "class_accuracy": float((right / occurring)[seen].mean()),
        "mean_iou": float((right / union)[seen].mean()),
    }
