"""Filters that act on each channel by itself: one for all (``[K, 1]``) or one each (``[K, C]``)."""

from __future__ import annotations

from typing import Any

import torch

from permutogeo import _warp
from permutogeo.kernels import convolve as kernels
from permutogeo.ops._library import define
from permutogeo.ops.rows import with_zero_row
from permutogeo.ops.splat import combine

ops = torch.ops.permutogeo

# Vertices whose products are summed before the sums are.
_RUN = 1024
_MOST_RUNS = 64


def _convolve(values, filter, neighbors, opposite):
    device = values.device
    count, channels = values.shape
    out = _warp.empty(count, channels, dtype=values.dtype, device=device)
    values, filter = with_zero_row(values), filter.detach().contiguous()
    run = _warp.kernels(kernels.make_channelwise, values.dtype, device=device)
    shared = filter.shape[1] == 1
    described = [_warp.array(filter.view(-1), 1)] if shared else _warp.rows(filter)
    _warp.launch(
        run.shared if shared else run.depthwise,
        count,
        _warp.array(neighbors, 2),
        *described,
        *_warp.rows(values),
        *_warp.rows(out),
        device=device,
        grain=256,
    )
    return out


def _correlate(values, grad, neighbors, opposite, shared):
    device = values.device
    values, grad = with_zero_row(values), grad.detach().contiguous()
    count, taps = neighbors.shape
    runs = max(1, min(_MOST_RUNS, count // _RUN))
    length = -(-count // runs)
    tools = _warp.kernels(kernels.make_channelwise, values.dtype, device=device)
    if shared:
        out = torch.zeros(runs, taps, dtype=torch.float64, device=device)
        kernel, described = tools.shared_grad, [_warp.array(out, 2)]
    else:
        out = values.new_zeros(runs * taps, values.shape[1])
        kernel, described = tools.depthwise_grad, _warp.rows(out)
    _warp.launch(
        kernel,
        runs,
        length,
        _warp.array(neighbors, 2),
        *_warp.rows(values),
        *_warp.rows(grad),
        *described,
        device=device,
        grain=1,
    )
    return combine(out.view(runs, taps, -1)).to(values.dtype)


def _save(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs[:4])


def _backward_convolve(ctx: Any, grad: torch.Tensor) -> tuple:
    values, filter, neighbors, opposite = ctx.saved_tensors
    grad_values = grad_filter = None
    if ctx.needs_input_grad[0]:
        adjoint = filter.index_select(0, opposite)
        grad_values = ops.convolve_channelwise(grad, adjoint, neighbors, opposite)
    if ctx.needs_input_grad[1]:
        shared = filter.shape[1] == 1
        grad_filter = ops.correlate_channelwise(values, grad, neighbors, opposite, shared)
    return grad_values, grad_filter, None, None


def _backward_correlate(ctx: Any, grad: torch.Tensor) -> tuple:
    values, other, neighbors, opposite = ctx.saved_tensors
    grad_values = grad_other = None
    if ctx.needs_input_grad[0]:
        adjoint = grad.index_select(0, opposite)
        grad_values = ops.convolve_channelwise(other, adjoint, neighbors, opposite)
    if ctx.needs_input_grad[1]:
        grad_other = ops.convolve_channelwise(values, grad, neighbors, opposite)
    return grad_values, grad_other, None, None, None


convolve_channelwise = define(
    "convolve_channelwise(Tensor values, Tensor filter, Tensor neighbors, Tensor opposite)"
    " -> Tensor",
    _convolve,
    lambda values, filter, neighbors, opposite: torch.empty_like(
        values, memory_format=torch.contiguous_format
    ),
    save=_save,
    backward=_backward_convolve,
)

correlate_channelwise = define(
    "correlate_channelwise(Tensor values, Tensor grad, Tensor neighbors, Tensor opposite,"
    " bool shared) -> Tensor",
    _correlate,
    lambda values, grad, neighbors, opposite, shared: values.new_empty(
        neighbors.shape[1], 1 if shared else values.shape[1]
    ),
    save=_save,
    backward=_backward_correlate,
)
