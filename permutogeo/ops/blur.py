"""Separable Gaussian blur on the lattice."""

from __future__ import annotations

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
_WIDEST = 64


def _blur(values, neighbors, dim, taps, reverse):
    device, count = values.device, len(values)
    radius, channels = len(taps) // 2, values.shape[1]
    # Narrow rows, and widths that fill SIMD vectors, get a kernel of their own.
    wide = 0 < channels <= _WIDEST and (channels <= _LANES or channels % _LANES == 0)
    make, key = (kernels.make_wide, (channels,)) if wide else (kernels.make, ())
    run = bridge.load_kernels(make, values.dtype, radius, *key, device=device)
    # Normalized by the response at the center, which only equal steps along all axes reach.
    gain = sum(tap ** (dim + 1) for tap in taps) ** (-1.0 / (dim + 1))
    sides = [tap for tap in taps[radius + 1 :] for _ in range(2)]
    tap = run.Tap(*(gain * tap for tap in [taps[radius], *sides]))
    axes = stencils.axis_columns(dim, radius).tolist()
    current = with_zero_row(values)
    out = memory.empty(*current.shape, dtype=values.dtype, device=device)
    out[count] = 0
    for axis in reversed(axes) if reverse else axes:
        bridge.launch(
            run.axis,
            count,
            bridge.array(neighbors, 2),
            run.Column(*axis),
            tap,
            *([bridge.array(current, 1)] if wide else bridge.rows(current)),
            *([bridge.array(out, 1)] if wide else bridge.rows(out)),
            device=device,
            grain=_GRAIN,
        )
        current, out = out, current
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
