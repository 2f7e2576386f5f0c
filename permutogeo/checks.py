"""What the public functions make of their arguments before they compute with them.

An error is raised here, once, and names the argument, what was expected and what came.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import torch
from torch import Tensor

from permutogeo import stencils


def check_rows(name: str, x: Tensor, count: int, things: str, like: Tensor) -> None:
    """Raise unless ``x`` is a float matrix with a row for each of ``count`` things."""
    if torch.compiler.is_compiling():
        return
    if not isinstance(x, Tensor):
        raise TypeError(f"Expected '{name}' to be a tensor (got {type(x).__name__})")
    if x.dim() != 2 or x.shape[0] != count:
        raise ValueError(
            f"Expected '{name}' of shape [{count}, C], one row for each of the {count} {things} "
            f"(got {list(x.shape)})"
        )
    if not x.is_floating_point():
        raise TypeError(f"Expected '{name}' of a floating-point type (got {x.dtype})")
    if x.device != like.device:
        raise ValueError(
            f"Expected '{name}' on the lattice's device {like.device} (got {x.device}); "
            f"move one of them with .to()"
        )


def working_dtype(x: Tensor) -> torch.dtype:
    """The type to sum in: half precision is summed in single."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def check_points(name: str, feature: Tensor, batch_name: str, batch: Tensor | None) -> Tensor:
    """Raise unless ``feature`` and ``batch`` describe points; returns features to compute with."""
    if not isinstance(feature, Tensor):
        raise TypeError(f"Expected '{name}' to be a tensor (got {type(feature).__name__})")
    if feature.dim() != 2 or feature.shape[1] < 1:
        raise ValueError(f"Expected '{name}' of shape [N, d] (got {list(feature.shape)})")
    if not feature.is_floating_point():
        raise TypeError(f"Expected '{name}' of a floating-point type (got {feature.dtype})")
    if batch is not None:
        if not isinstance(batch, Tensor) or batch.dtype != torch.int64:
            kind = batch.dtype if isinstance(batch, Tensor) else type(batch).__name__
            raise TypeError(f"Expected '{batch_name}' to be an int64 tensor (got {kind})")
        if batch.dim() != 1 or batch.shape[0] != feature.shape[0]:
            raise ValueError(
                f"Expected '{batch_name}' of shape [{feature.shape[0]}], one entry for each row of "
                f"'{name}' (got {list(batch.shape)})"
            )
        if batch.device != feature.device:
            raise ValueError(
                f"Expected '{batch_name}' on the device of '{name}', {feature.device} "
                f"(got {batch.device})"
            )
    return feature if feature.dtype == torch.float64 else feature.float()


def check_alike(name: str, feature: Tensor, like: Tensor) -> None:
    """Raise unless ``feature`` has the dimension and the device of the lattice's points."""
    if feature.shape[1] != like.shape[1]:
        raise ValueError(
            f"Expected '{name}' of shape [N, {like.shape[1]}] like the lattice's other points "
            f"(got {list(feature.shape)})"
        )
    if feature.device != like.device:
        raise ValueError(f"Expected '{name}' on {like.device} (got {feature.device})")


def join_batches(batch_src: Tensor | None, batch_dst: Tensor | None) -> Tensor | None:
    """Both batch vectors as one, where both are given."""
    if batch_src is None and batch_dst is None:
        return None
    if batch_src is None or batch_dst is None:
        missing = "batch_src" if batch_src is None else "batch_dst"
        raise ValueError(f"Expected both 'batch_src' and 'batch_dst', or neither (no '{missing}')")
    return torch.cat([batch_src, batch_dst])


def check_taps(taps: Sequence[float]) -> tuple[float, ...]:
    """Raise unless a blur can have these taps."""
    taps = tuple(float(tap) for tap in taps)
    if len(taps) % 2 == 0 or taps != taps[::-1] or not 0 < sum(taps) < math.inf or min(taps) < 0:
        raise ValueError(
            f"Expected 'taps' of odd length, symmetric, finite and not negative (got {list(taps)})"
        )
    return taps


def tap_variance(taps: tuple[float, ...]) -> float:
    """Variance of the taps as a distribution, which sets the scale of the lattice."""
    centre = len(taps) // 2
    return sum(tap * (i - centre) ** 2 for i, tap in enumerate(taps)) / sum(taps)


def check_filter(weight: Tensor, taps: int, values: Tensor, groups: int, shared: bool) -> None:
    """Raise unless a filter of so many taps fits the values."""
    channels = values.shape[1]
    stencils.check_integer("groups", groups, 1)
    if channels % groups:
        raise ValueError(f"Expected 'groups' to divide the {channels} channels (got {groups})")
    if not isinstance(weight, Tensor) or not weight.is_floating_point():
        raise TypeError(
            f"Expected 'filter_weight' to be a floating-point tensor "
            f"(got {getattr(weight, 'dtype', type(weight).__name__)})"
        )
    if shared:
        expected, right = f"[{taps}]", weight.shape == (taps,)
    else:
        expected = f"[{taps}, {channels // groups}, C_out]"
        right = weight.dim() == 3 and weight.shape[:2] == (taps, channels // groups)
    if not right:
        raise ValueError(f"Expected 'filter_weight' of shape {expected} (got {list(weight.shape)})")
    if not shared and weight.shape[2] % groups:
        raise ValueError(
            f"Expected 'groups' to divide the {weight.shape[2]} output channels (got {groups})"
        )
    if weight.device != values.device:
        raise ValueError(f"Expected 'filter_weight' on {values.device} (got {weight.device})")


def total_memory(device: torch.device) -> int:
    """Bytes of memory that the device has in all."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[1]
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
