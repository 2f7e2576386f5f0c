"""Convolution that does not mix channels: a shared filter ``[K, 1]`` or a depthwise ``[K, C]``."""

from __future__ import annotations

from typing import Any

import torch

from permutogeo.kernels import convolve_channelwise as kernels
from permutogeo.ops._library import define, ops
from permutogeo.ops.neighbors import with_zero_row
from permutogeo.ops.splat import combine
from permutogeo.runtime import bridge, memory

# Vertices per partial sum of the filter's gradient, and most such sums, on the CPU.
_RUN = 1024
_MOST_RUNS = 64
# On a GPU: threads of the gradient, and fewest vertices of each.
_THREADS = 2**16
_SHORTEST_RUN = 16


def _convolve(values, filter, neighbors, opposite):
    device = values.device
    count, channels = values.shape
    out = memory.empty(count, channels, dtype=values.dtype, device=device)
    values, filter = with_zero_row(values), filter.detach().contiguous()
    shared = filter.shape[1] == 1
    rows = bridge.Rows(values, out, *([] if shared else [filter]))
    bridge.launch(
        _load(rows, shared, values).convolve,
        count,
        neighbors,
        filter.view(-1) if shared else filter,
        values,
        out,
        device=device,
        inner=rows.blocks,
        grain=256,
    )
    return out


def _correlate(values, grad, neighbors, opposite, shared):
    device = values.device
    values, grad = with_zero_row(values), grad.detach().contiguous()
    count, taps = neighbors.shape
    on_cpu = device.type == "cpu"
    runs = min(_MOST_RUNS, count // _RUN) if on_cpu else _device_runs(count, taps)
    runs = max(1, runs)
    length = -(-count // runs)
    if shared:
        out = torch.zeros(runs, taps, dtype=torch.float64, device=device)
    else:
        out = values.new_zeros(runs * taps, values.shape[1])
    rows = bridge.Rows(values, grad, *([] if shared else [out]))
    bridge.launch(
        _load(rows, shared, values).correlate,
        runs,
        length,
        neighbors,
        values,
        grad,
        out,
        device=device,
        inner=() if on_cpu else (taps,) if shared else (taps, *rows.blocks),
        grain=1,
    )
    sums = out.view(runs, taps, -1)
    # Elsewhere torch's reduction has the parallelism, and an order of its own that is fixed.
    return (combine(sums) if on_cpu else sums.sum(0)).to(values.dtype)


def _device_runs(count: int, taps: int) -> int:
    """Return the number of runs of vertices, each with a thread for every tap."""
    return min(max(_MOST_RUNS, _THREADS // taps), -(-count // _SHORTEST_RUN))


def _load(rows: bridge.Rows, shared: bool, values: torch.Tensor) -> Any:
    cpu, gpu = kernels.make_depthwise, kernels.make_depthwise_gpu
    if shared:
        cpu, gpu = kernels.make_shared, kernels.make_shared_gpu
    return rows.load(cpu, gpu, values.dtype, device=values.device)


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
    linear=[0, 1],
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
    linear=[0, 1],
)
