"""Slice: values at vertices to values at points.

``splat``, ``slice`` and ``dot`` are the derivatives of the trilinear form ``sum_ik weight_ik <x_i,
values_{vertex_ik}>`` in ``values``, ``x`` and ``weight``, so that the gradient of each consists of
the other two. ``order``, ``begin`` and ``runs`` come from ``plan`` and are used by ``splat``.
"""

from __future__ import annotations

from typing import Any

import torch

from permutogeo.kernels import slice as kernels
from permutogeo.ops._library import define, ops
from permutogeo.runtime import bridge, memory


def _slice(values, weight, vertex, order, begin, runs):
    device = values.device
    count, corners = vertex.shape
    out = memory.empty(count, values.shape[1], dtype=values.dtype, device=device)
    values, weight, vertex = values.contiguous(), weight.contiguous(), vertex.contiguous()
    rows = bridge.Rows(values, out)
    run = rows.load(kernels.make, kernels.make_gpu, corners, values.dtype, device=device)
    bridge.launch(
        run.gather,
        count,
        *([memory.exceeds_cache(values)] if device.type == "cpu" else []),
        vertex,
        weight,
        values,
        out,
        device=device,
        inner=rows.blocks,
    )
    return out


def _save(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs)
    ctx.num_vertices = inputs[0].shape[0]


def _backward(ctx: Any, grad: torch.Tensor) -> tuple:
    values, weight, *incidence = ctx.saved_tensors
    grad_values = grad_weight = None
    if ctx.needs_input_grad[0]:
        vertex, *by_vertex = incidence
        grad_values = ops.splat(grad, weight, vertex, ctx.num_vertices, *by_vertex)
    if ctx.needs_input_grad[1]:
        grad_weight = ops.dot(grad, values, *incidence)
    return grad_values, grad_weight, None, None, None, None


slice = define(
    "slice(Tensor values, Tensor weight, Tensor vertex, Tensor? order, Tensor? begin,"
    " Tensor? runs) -> Tensor",
    _slice,
    lambda values, weight, vertex, order, begin, runs: values.new_empty(
        vertex.shape[0], values.shape[1]
    ),
    save=_save,
    backward=_backward,
    linear=[0, 1],
)
