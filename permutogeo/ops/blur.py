"""Separable Gaussian blur on the lattice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from permutogeo.kernels import blur as kernels
from permutogeo.ops import stencils
from permutogeo.ops._library import define
from permutogeo.ops.neighbors import with_zero_row
from permutogeo.runtime import bridge, memory

# Fewest vertices for which another thread pays.
_GRAIN = 16384
_LANES = 8
# Rows of up to this many channels have kernels of their own width.
NARROW = 8


def _block_lanes(channels: int) -> int:
    """Return the lanes of the blocks of a row, 0 for rows that are not divided."""
    if channels <= NARROW:
        return channels
    return _LANES if channels % _LANES == 0 else 0


class _Plan:
    """Kernels and weights of a blur.

    Args:
        values: Values to blur, and a tensor like them.
        lanes: On the CPU, the lanes of the blocks that a row is divided into; 0 for rows of any
            width.
    """

    def __init__(
        self,
        values: tuple[torch.Tensor, torch.Tensor],
        dim: int,
        taps: Sequence[float],
        lanes: int,
    ):
        radius, first = len(taps) // 2, values[0]
        self.rows = bridge.Rows(*values)
        self.lanes = 0 if self.rows.lanes else lanes
        divided = [self.lanes] if self.lanes else []
        self.blocks = [first.shape[1] // each for each in divided]
        make = kernels.make_blocks if divided else kernels.make
        key = (first.dtype, radius, *divided)
        self.kernels = self.rows.load(make, kernels.make_gpu, *key, device=first.device)
        # Normalized by the response at the center, which only equal steps along all axes reach.
        gain = sum(tap ** (dim + 1) for tap in taps) ** (-1.0 / (dim + 1))
        sides = [tap for tap in taps[radius + 1 :] for _ in range(2)]
        self.weights = [gain * tap for tap in [taps[radius], *sides]]
        self.columns = stencils.axis_columns(dim, radius)

    def tap(self) -> Any:
        return self.kernels.Tap(*self.weights)

    def divide(self, rows: torch.Tensor) -> torch.Tensor:
        return rows.view(-1, self.lanes) if self.lanes else rows


def _blur(values, neighbors, dim, taps, reverse):
    count, channels = values.shape
    current = with_zero_row(values)
    other = memory.empty(*current.shape, dtype=values.dtype, device=values.device)
    other[count] = 0
    plan = _Plan((current, other), dim, taps, _block_lanes(channels))
    axes = plan.columns.tolist()
    for axis in reversed(axes) if reverse else axes:
        bridge.launch(
            plan.kernels.axis,
            count,
            *plan.blocks,
            neighbors,
            plan.kernels.Column(*axis),
            plan.tap(),
            plan.divide(current),
            plan.divide(other),
            device=values.device,
            inner=plan.rows.blocks,
            grain=_GRAIN,
        )
        current, other = other, current
    return current[:count]


def _save(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    _, neighbors, ctx.dim, ctx.taps, ctx.reverse = inputs
    ctx.save_for_backward(neighbors)


def _backward(ctx: Any, grad: torch.Tensor) -> tuple:
    grad_values = blur(grad, *ctx.saved_tensors, ctx.dim, ctx.taps, not ctx.reverse)
    return grad_values, None, None, None, None


blur = define(
    "blur(Tensor values, Tensor neighbors, int dim, float[] taps, bool reverse) -> Tensor",
    _blur,
    lambda values, neighbors, dim, taps, reverse: torch.empty_like(
        values, memory_format=torch.contiguous_format
    ),
    save=_save,
    backward=_backward,
    linear=[0],
)
