"""What is measured on the validation part, as sums that batches and processes add up to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from permutogeo.train.losses import Predict, predict


class Metric(ABC):
    """Sums over batches, and the figures that follow from them."""

    @abstractmethod
    def measure(self, model: torch.nn.Module, batch: Any) -> dict[str, Tensor]:
        """The sums of one batch; the same names and shapes for each."""

    @abstractmethod
    def summary(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """The figures of all batches."""


class Mean(Metric):
    """Means of what a function measures.

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
        num_classes: How many classes there are.
        ignore: The label that does not count.
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
    """How often each class (row) was given each label (column), ``[L, L]`` int64.

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
    """``accuracy``, ``class_accuracy`` and ``mean_iou`` of a confusion matrix."""
    table = confusion.double()
    right, occurring = table.diag(), table.sum(1)
    seen = occurring > 0
    union = occurring + table.sum(0) - right
    return {
        "accuracy": float(right.sum() / table.sum()),
        "class_accuracy": float((right / occurring)[seen].mean()),
        "mean_iou": float((right / union)[seen].mean()),
    }
