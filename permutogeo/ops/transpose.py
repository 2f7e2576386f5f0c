"""The incidence by vertex: which corners of which points meet there."""

from __future__ import annotations

import torch

from permutogeo import _threads, _warp
from permutogeo.kernels import transpose as kernels
from permutogeo.ops._library import define

_MOST_COPIES = 8


def private_copies(num_corners: int, num_vertices: int) -> int:
    """In how many runs a CPU adds points into copies of the values: 0 where that would not pay.

    It depends on sizes alone, so that the result of a splat does not depend on threads.
    """
    return min(_MOST_COPIES, num_corners // (8 * max(1, num_vertices)))


def _transpose(vertex: torch.Tensor, num_vertices: int) -> tuple[torch.Tensor, torch.Tensor]:
    flat = vertex.contiguous().view(-1)
    copied = vertex.device.type == "cpu" and private_copies(len(flat), num_vertices) > 0
    if copied or num_vertices == 0:
        return flat.new_empty(0), flat.new_empty(0)
    count = _count if vertex.device.type == "cpu" else _sort
    return count(flat, num_vertices)


def _count(flat: torch.Tensor, num_vertices: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A counting sort by runs of corners."""
    device = flat.device
    # A count per vertex and run: no more runs than pay for themselves.
    runs = max(1, min(_threads.count(), len(flat) // max(1, 2 * num_vertices)))
    run = max(1, -(-len(flat) // runs))
    position = torch.zeros(runs, num_vertices, dtype=torch.int32, device=device)
    tools = _warp.kernels(kernels.make, device=device)
    corner = _warp.array(flat, 1)
    _warp.launch(tools.count, runs, run, corner, _warp.array(position, 2), device=device, grain=1)
    after = position.t().contiguous().view(-1).cumsum(0, dtype=torch.int64)
    begin = torch.zeros(num_vertices + 1, dtype=torch.int32, device=device)
    begin[1:] = after.view(num_vertices, runs)[:, -1]
    before = after.view(num_vertices, runs).t() - position
    position = before.to(torch.int32).contiguous()
    order = _warp.empty(int(begin[-1]), dtype=torch.int32, device=device)
    outputs = (_warp.array(position, 2), _warp.array(order, 1))
    _warp.launch(tools.place, runs, run, corner, *outputs, device=device, grain=1)
    return order, begin


def _sort(flat: torch.Tensor, num_vertices: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A stable sort, for devices where counting would need atomics."""
    vertex, order = torch.sort(flat, stable=True)
    edge = torch.arange(num_vertices + 1, dtype=vertex.dtype, device=vertex.device)
    return order.to(torch.int32), torch.searchsorted(vertex, edge, out_int32=True)


def _fake(vertex, num_vertices):
    context = torch.library.get_ctx()
    sizes = (context.new_dynamic_size(min=0) for _ in range(2))
    return tuple(vertex.new_empty(size) for size in sizes)


transpose = define(
    "transpose(Tensor vertex, SymInt num_vertices) -> (Tensor order, Tensor begin)",
    _transpose,
    _fake,
)
