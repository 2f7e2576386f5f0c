"""The separable Gaussian on the lattice."""

from __future__ import annotations

from typing import Any

import torch

from permutogeo import _warp
from permutogeo.kernels import blur as kernels
from permutogeo.ops._library import define
from permutogeo.ops.rows import with_zero_row


def _blur(values, neighbors, column, tap, reverse):
    device, count = values.device, len(values)
    run = _warp.kernels(kernels.make, values.dtype, column.shape[1] // 2, device=device)
    tap = run.Tap(*tap.tolist())
    axes = column.tolist()
    current = with_zero_row(values)
    out = _warp.empty(*current.shape, dtype=values.dtype, device=device)
    out[count] = 0
    for axis in reversed(axes) if reverse else axes:
        _warp.launch(
            run.axis,
            count,
            _warp.array(neighbors, 2),
            run.Column(*axis),
            tap,
            *_warp.rows(current),
            *_warp.rows(out),
            device=device,
        )
        current, out = out, current
    return current[:count]


def _save(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    _, neighbors, column, tap, ctx.reverse = inputs
    ctx.save_for_backward(neighbors, column, tap)


def _backward(ctx: Any, grad: torch.Tensor) -> tuple:
    return blur(grad, *ctx.saved_tensors, not ctx.reverse), None, None, None, None


blur = define(
    "blur(Tensor values, Tensor neighbors, Tensor column, Tensor tap, bool reverse) -> Tensor",
    _blur,
    lambda values, neighbors, column, tap, reverse: torch.empty_like(
        values, memory_format=torch.contiguous_format
    ),
    save=_save,
    backward=_backward,
)
