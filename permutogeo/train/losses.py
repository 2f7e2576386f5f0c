"""Losses as sums and counts, so that batches and processes of different sizes add up.

A *step* is a function ``(model, batch) -> (sum, count)``: the loss summed over the elements of the
batch, and their number. :class:`~permutogeo.train.Trainer` minimizes ``sum / count``. The steps of
this module are made from a function ``predict(model, batch)`` that returns prediction and target.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

Predict = Callable[[torch.nn.Module, Any], tuple[Tensor, Tensor]]
Step = Callable[[torch.nn.Module, Any], tuple[Tensor, "Tensor | float"]]


def predict(model: torch.nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
    """Return the prediction of a model for a batch, and the target.

    For a pair ``(input, target)`` this calls ``model(input)``; for a PyG batch with ``x``,
    ``feature`` and ``y`` it calls ``model(x, feature, batch)``.
    """
    if isinstance(batch, (list, tuple)) and len(batch) == 2:
        return model(batch[0]), batch[1]
    x, feature, y = (getattr(batch, name, None) for name in ("x", "feature", "y"))
    if x is None or feature is None or y is None:
        raise TypeError(
            f"Expected a batch (input, target), or one with x, feature and y (got "
            f"{type(batch).__name__}); pass a 'predict' function or a step for other batches"
        )
    return model(x, feature, getattr(batch, "batch", None)), y


def mse(prediction: Tensor, target: Tensor) -> tuple[Tensor, float]:
    r"""Sum of squared differences :math:`\sum (p - t)^2` and their number.

    Example:
        >>> import torch
        >>> from permutogeo.train import mse
        >>> mse(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
        (tensor(4.), 2.0)
    """
    if prediction.shape != target.shape:
        raise ValueError(
            f"Expected a target of shape {list(prediction.shape)} (got {list(target.shape)})"
        )
    return (prediction - target).square().sum(), float(target.numel())


def logistic(
    prediction: Tensor,
    target: Tensor,
    class_weight: Tensor | None = None,
    ignore: int | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Multinomial logistic loss :math:`-\sum_i w_{y_i} \log p_i(y_i)` and :math:`\sum_i w_{y_i}`.

    For a floating-point target in [0, 1] of the prediction's shape, the binary logistic loss.

    Args:
        prediction: Logits :math:`(N, L)` or :math:`(N, L, …)`.
        target: Classes :math:`(N)` or :math:`(N, …)` of type int64.
        class_weight: Weight of each class :math:`(L)`; by default 1.
        ignore: Label to ignore.
    """
    if target.is_floating_point():
        if prediction.shape != target.shape or class_weight is not None or ignore is not None:
            raise ValueError(
                f"Expected a target of shape {list(prediction.shape)} without 'class_weight' and "
                f"'ignore' for a binary loss (got {list(target.shape)})"
            )
        total = functional.binary_cross_entropy_with_logits(prediction, target, reduction="sum")
        return total, torch.tensor(float(target.numel()))
    _check_classes(prediction, target, class_weight, ignore)
    void = -100 if ignore is None else ignore
    if class_weight is not None:
        class_weight = class_weight.to(prediction)
    total = functional.cross_entropy(prediction, target, class_weight, ignore_index=void,
                                     reduction="sum")  # fmt: skip
    counted = target[target != void]
    count = len(counted) if class_weight is None else class_weight[counted].sum()
    return total, torch.as_tensor(count, dtype=torch.float64)


def _check_classes(
    prediction: Tensor, target: Tensor, class_weight: Tensor | None, ignore: int | None
) -> None:
    if prediction.dim() < 2 or target.shape != prediction.shape[:1] + prediction.shape[2:]:
        raise ValueError(
            f"Expected logits of shape [N, L] and classes of shape [N] "
            f"(got {list(prediction.shape)} and {list(target.shape)})"
        )
    classes = prediction.shape[1]
    if class_weight is not None and class_weight.shape != (classes,):
        got = list(class_weight.shape)
        raise ValueError(f"Expected 'class_weight' of shape [{classes}] (got {got})")
    wrong = (target < 0) | (target >= classes)
    if ignore is not None:
        wrong &= target != ignore
    if wrong.any():
        raise ValueError(
            f"Expected classes below {classes} (got {int(target[wrong][0])}); "
            f"pass 'ignore' for a label without a class"
        )


def mse_step(predict: Predict = predict) -> Step:
    """Return the step of :func:`mse`."""
    return lambda model, batch: mse(*predict(model, batch))


def logistic_step(
    class_weight: Tensor | None = None, ignore: int | None = None, predict: Predict = predict
) -> Step:
    """Return the step of :func:`logistic`."""
    return lambda model, batch: logistic(*predict(model, batch), class_weight, ignore)


def resolve_loss(loss: str | Step) -> Step:
    """Return the step of a named loss; a function is returned unchanged."""
    named: dict[str, Callable[[], Step]] = {"mse": mse_step, "logistic": logistic_step}
    if callable(loss):
        return loss
    if loss not in named:
        raise ValueError(f"Expected 'loss' in {', '.join(named)}, or a function (got {loss!r})")
    return named[loss]()
