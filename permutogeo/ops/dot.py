"""Inner products of points and their vertices: the derivative of splat and slice in the weights.
See ``ops/slice.py``."""

from __future__ import annotations

from typing import Any

import torch

from permutogeo.kernels import dot as kernels
from permutogeo.ops._library import define, ops
from permutogeo.runtime import bridge, memory


def _dot(x, values, vertex, order, begin, runs):
    device = x.device
    out = memory.empty(*vertex.shape, dtype=x.dtype, device=device)
    x, values, vertex = x.detach().contiguous(), values.detach().contiguous(), vertex.contiguous()
    corners, rows = vertex.shape[1], bridge.Rows(x, values)
    run = rows.load(kernels.make, kernels.make_gpu, corners, x.dtype, device=device)
    bridge.launch(
        run.inner,
        len(x),
        *([memory.exceeds_cache(values)] if device.type == "cpu" else []),
        vertex,
        x,
        values,
        out,
        device=device,
        # On a GPU a thread owns a corner, elsewhere a point.
        inner=(corners,) if rows.lanes else (),
    )
    return out


def _save(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs)
    ctx.num_vertices = inputs[1].shape[0]


def _backward(ctx: Any, grad: torch.Tensor) -> tuple:
    x, values, vertex, *by_vertex = ctx.saved_tensors
    grad_x = grad_values = None
    if ctx.needs_input_grad[0]:
        grad_x = ops.slice(values, grad, vertex, *by_vertex)
    if ctx.needs_input_grad[1]:
        grad_values = ops.splat(x, grad, vertex, ctx.num_vertices, *by_vertex)
    return grad_x, grad_values, None, None, None, None


dot = define(
    "dot(Tensor x, Tensor values, Tensor vertex, Tensor? order, Tensor? begin,"
    " Tensor? runs) -> Tensor",
    _dot,
    lambda x, values, vertex, order, begin, runs: x.new_empty(vertex.shape),
    save=_save,
    backward=_backward,
    linear=[0, 1],
)
