"""Values at points to values at vertices: the transpose of ``slice``, which see."""

from __future__ import annotations

from typing import Any

import torch

from permutogeo import _warp
from permutogeo.kernels import splat as kernels
from permutogeo.ops._library import define
from permutogeo.ops.plan import plan

ops = torch.ops.permutogeo


def _splat(x, weight, vertex, num_vertices, order, begin, runs):
    x, weight, vertex = x.detach().contiguous(), weight.detach().contiguous(), vertex.contiguous()
    if order is None:
        order, begin, runs = plan(vertex, num_vertices, None, None, False)
    if len(runs):
        return _scatter(x, weight, vertex, num_vertices, runs)
    return _collect(x, weight, vertex, num_vertices, order, begin)


def _scatter(x, weight, vertex, num_vertices, runs):
    device = x.device
    channels, copies = x.shape[1], int(runs[:, 0].max()) + 1
    shape = (copies * num_vertices, channels)
    values = _warp.full(*shape, value=0, dtype=x.dtype, device=device)
    tools = _warp.kernels(kernels.make, vertex.shape[1], x.dtype, device=device)
    _warp.launch(
        tools.scatter,
        len(runs),
        _warp.array(runs, 2),
        num_vertices,
        *(_warp.array(vertex, 1), _warp.array(weight, 1)),
        *_warp.rows(x),
        *_warp.rows(values),
        device=device,
        grain=1,
    )
    return combine(values.view(copies, num_vertices, channels))


def combine(copies: torch.Tensor) -> torch.Tensor:
    """Sum over the first axis in its order, so that the bits do not depend on threads."""
    if len(copies) == 1:
        return copies[0]
    flat = copies.reshape(len(copies), -1)
    out = torch.empty_like(flat[0])
    tools = _warp.kernels(kernels.make_combine, copies.dtype, device=copies.device)
    described = (_warp.array(flat, 2), _warp.array(out, 1))
    _warp.launch(tools.combine, len(out), *described, device=copies.device, grain=16384)
    return out.view(copies.shape[1:])


def _collect(x, weight, vertex, num_vertices, order, begin):
    device = x.device
    out = _warp.empty(num_vertices, x.shape[1], dtype=x.dtype, device=device)
    tools = _warp.kernels(kernels.make, vertex.shape[1], x.dtype, device=device)
    _warp.launch(
        tools.collect,
        num_vertices,
        *(_warp.array(part, 1) for part in (begin, order, weight.view(-1))),
        *_warp.rows(x),
        *_warp.rows(out),
        device=device,
    )
    return out


def _save(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    x, weight, vertex, _, *by_vertex = inputs
    ctx.save_for_backward(x, weight, vertex, *by_vertex)


def _backward(ctx: Any, grad: torch.Tensor) -> tuple:
    x, weight, *incidence = ctx.saved_tensors
    grad_x = ops.slice(grad, weight, *incidence) if ctx.needs_input_grad[0] else None
    grad_weight = ops.dot(x, grad, *incidence) if ctx.needs_input_grad[1] else None
    return grad_x, grad_weight, None, None, None, None, None


splat = define(
    "splat(Tensor x, Tensor weight, Tensor vertex, SymInt num_vertices,"
    " Tensor? order, Tensor? begin, Tensor? runs) -> Tensor",
    _splat,
    lambda x, weight, vertex, num_vertices, order, begin, runs: x.new_empty(
        num_vertices, x.shape[1]
    ),
    save=_save,
    backward=_backward,
)
