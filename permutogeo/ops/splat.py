"""Splat: values at points to values at vertices, the transpose of ``slice``. See
``ops/slice.py``."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch

from permutogeo.kernels import splat as kernels
from permutogeo.ops._library import define, ops
from permutogeo.ops.plan import splat_plan
from permutogeo.runtime import bridge, memory

# Corners at a vertex from which on a GPU sums them in pieces, and fewest corners of a piece.
_LONG = 32


def _splat(x, weight, vertex, num_vertices, order, begin, runs):
    x, weight, vertex = x.contiguous(), weight.contiguous(), vertex.contiguous()
    if order is None:
        order, begin, runs = splat_plan(vertex, num_vertices, None, None, False)
    if runs.shape[0]:
        return _scatter(x, weight, vertex, num_vertices, runs)
    return _collect(x, weight, vertex, num_vertices, order, begin)


def _scatter(x, weight, vertex, num_vertices, runs):
    """Splat runs of points into copies of the vertices of their graphs, then sum the copies."""
    device, channels = x.device, x.shape[1]
    copies, rows, uniform = 1, num_vertices, True
    targets = runs[:, :3]  # of a single run: the first row of its copy, first and last point
    if runs.shape[0] > 1:
        copy, first, last, begin, end = runs.numpy().T
        copies, rows = int(copy[-1]) + 1, int((end - begin).sum())  # sorted by copy
        uniform = rows == copies * num_vertices or copies == 1
        if uniform:
            rows, base = copies * num_vertices, copy * num_vertices
        else:  # only graphs with further copies take memory for them
            base = (end - begin).cumsum(dtype=np.int32) - end
        targets = torch.from_numpy(np.stack([base, first, last], 1).astype(np.int32, copy=False))
    values = memory.full(rows, channels, value=0, dtype=x.dtype, device=device)
    tools = bridge.load_kernels(kernels.make, vertex.shape[1], x.dtype, device=device)
    bridge.launch(
        tools.scatter,
        runs.shape[0],
        memory.exceeds_cache(values),
        targets,
        vertex,
        weight,
        x,
        values,
        device=device,
        grain=1,
    )
    if copies == 1 and uniform:
        return values
    if uniform:
        return combine(values.view(copies, num_vertices, channels))
    return _combine_graphs(values, num_vertices, copy, begin, end)


def _combine_graphs(values, num_vertices, copy, begin, end):
    """Sum copies that some graphs have more of than others, in the order of the copies."""
    out, *parts = values.split(
        [int((end - begin)[copy == number].sum()) for number in range(int(copy[-1]) + 1)]
    )
    out = out.clone()  # releases the copies
    for number, part in enumerate(parts, 1):
        ranges = zip(begin[copy == number].tolist(), end[copy == number].tolist(), strict=True)
        out.index_add_(0, torch.cat([torch.arange(*pair) for pair in ranges]), part)
    return out


def combine(copies: torch.Tensor) -> torch.Tensor:
    """Return the sum over the first axis, in a fixed order on any number of threads."""
    if copies.shape[0] == 1:
        return copies[0]
    flat = copies.reshape(len(copies), -1)
    out = torch.empty_like(flat[0])
    tools = bridge.load_kernels(kernels.make_combine, copies.dtype, device=copies.device)
    bridge.launch(tools.combine, len(out), flat, out, device=copies.device, grain=16384)
    return out.view(copies.shape[1:])


def _collect(x, weight, vertex, num_vertices, order, begin):
    device = x.device
    out = memory.empty(num_vertices, x.shape[1], dtype=x.dtype, device=device)
    corners = (begin, order, weight.view(-1))
    if device.type == "cuda":
        _collect_on_gpu(x, vertex.shape[1], begin, corners, out)
        return out
    tools = bridge.load_kernels(kernels.make, vertex.shape[1], x.dtype, device=device)
    scattered = memory.exceeds_cache(x)
    bridge.launch(tools.collect, num_vertices, scattered, *corners, x, out, device=device)
    return out


def _collect_on_gpu(x, width, begin, corners, out):
    """Sum pieces of long lists of corners, then the pieces and the short lists.

    Args:
        width: Corners of a point.
        corners: ``begin``, ``order`` and weights.
    """
    piece, length = _pieces(begin)
    most = 2 * len(x) * width // _LONG  # at least as many pieces as there are
    sums = x.new_empty(most, x.shape[1])
    rows = bridge.Rows(x, sums, out)
    tools = rows.load(kernels.make, kernels.make_gpu, width, x.dtype, device=x.device)
    launch = partial(bridge.launch, device=x.device, inner=rows.blocks)
    launch(tools.collect_pieces, most, piece, length, *corners, x, sums)
    launch(tools.collect, len(out), piece, sums, *corners, x, out)


def _pieces(begin: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Divide long lists of corners into about as many pieces as a piece has corners.

    Returns:
        The first piece of each vertex ``[M + 1]``, none for short lists, and the corners in a piece
        of each vertex ``[M]``.
    """
    count = begin.diff()
    length = count.double().sqrt().ceil().clamp(min=_LONG).to(torch.int32)
    pieces = torch.where(count > _LONG, -(-count // length), 0)
    piece = torch.zeros_like(begin)
    piece[1:] = pieces.cumsum(0)
    return piece, length


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
    linear=[0, 1],
)
