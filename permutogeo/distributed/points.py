"""The points of all ranks: agreement on their kind, and the box that contains them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from permutogeo.checks import check_points, check_same_space, check_taps
from permutogeo.distributed.ranks import Ranks
from permutogeo.ops import boxes
from permutogeo.ops.build import grid_extent
from permutogeo.ops.stencils import tap_variance

# Bounds of the coordinates of a rank without points.
_NOWHERE = 2**40


def agree_on_points(
    ranks: Ranks,
    feature: Any,
    batch: Any,
    taps: Sequence[float],
    suffix: str = "",
    like: Tensor | None = None,
    check: Callable[[Any], None] = lambda batch: None,
) -> tuple[Tensor, tuple[float, ...]]:
    """Check the points of this rank, and that all ranks have points of the same kind.

    If one rank fails, all raise, so that none waits for it.

    Args:
        suffix: Appended to the argument names in errors.
        like: Points of the same dimension and device.
        check: Checks the batch vector further.

    Returns:
        The features and the taps.
    """
    names = f"feature{suffix}", f"batch{suffix}"
    error: Exception | None = None
    facts: dict[str, Any] = {}
    try:
        feature = check_points(names[0], feature, names[1], batch)
        taps = check_taps(taps)
        if feature.device.type != ranks.device.type:
            raise ValueError(
                f"Expected '{names[0]}' on {ranks.device.type}, the device of the process group "
                f"(got {feature.device})"
            )
        if like is not None:
            check_same_space(names[0], feature, like)
        check(batch)
        grid_extent(feature.detach(), batch, tap_variance(taps), *names)
        facts = {
            f"dimension of '{names[0]}'": feature.shape[1],
            f"dtype of '{names[0]}'": feature.dtype,
            f"use of '{names[1]}'": "none" if batch is None else "one",
            f"requires_grad of '{names[0]}'": feature.requires_grad,
            "'taps'": taps,
        }
    except (TypeError, ValueError) as raised:
        error = raised
    ranks.agree(facts, error)
    return feature, tuple(taps)


def common_box(ranks: Ranks, feature: Tensor, batch: Tensor | None, variance: float) -> Tensor:
    """Return the box of the points of all ranks, on the CPU."""
    dim = feature.shape[1]
    if len(feature):
        low, high, graphs = grid_extent(feature.detach(), batch, variance)
    else:
        low, high, graphs = [_NOWHERE] * dim, [-_NOWHERE] * dim, 1
    bounds = [*low, *(-value for value in high), -graphs]
    least = ranks.reduce(torch.tensor(bounds, device=ranks.device), dist.ReduceOp.MIN).tolist()
    if least[0] == _NOWHERE:  # no rank has a point
        return boxes.make([0] * dim, [0] * dim, 1)
    return boxes.make(least[:dim], [-value for value in least[dim:-1]], -least[-1])


def first_corners(vertex: Tensor, num_vertices: int) -> Tensor:
    """Return how many points have each vertex as their first corner, ``[M]``."""
    return torch.bincount(vertex[:, 0].long(), minlength=num_vertices)
