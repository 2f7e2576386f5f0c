"""How points are to be added up at vertices, decided from sizes alone.

The sum at a vertex has an order that depends on the points of its own graph and on nothing else:
not on threads, and not on the other graphs of a batch.
"""

from __future__ import annotations

import torch

from permutogeo import _threads, _warp
from permutogeo.kernels import plan as kernels
from permutogeo.ops._library import define

_MOST_COPIES = 8


def _plan(
    vertex: torch.Tensor,
    num_vertices: int,
    batch: torch.Tensor | None,
    vertex_batch: torch.Tensor | None,
    sort: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Runs of points for private copies, where that pays; else the corners in order of vertices.

    Args:
        sort: Whether sorting the corners will be made up for. If not, all points are one run on a
            CPU, which adds in the same order.

    Returns:
        ``order`` and ``begin``, the corners by vertex, and ``runs [R, 3]`` (copy, first, last
        point); the one or the others are empty.
    """
    vertex = vertex.contiguous()
    if vertex.device.type == "cpu":
        runs = _runs(vertex, num_vertices, batch, vertex_batch)
        if not (len(runs) or sort):
            runs = torch.tensor([[0, 0, len(vertex)]], dtype=torch.int32)
        if len(runs):
            return vertex.new_empty(0), vertex.new_empty(0), runs
    transpose = _count if vertex.device.type == "cpu" else _sort
    return *transpose(vertex.view(-1), num_vertices), vertex.new_empty(0, 3)


def _runs(
    vertex: torch.Tensor,
    num_vertices: int,
    batch: torch.Tensor | None,
    vertex_batch: torch.Tensor | None,
) -> torch.Tensor:
    """Each graph's points in as many runs as it can afford copies of its vertices."""
    count, corners = vertex.shape
    if batch is None or vertex_batch is None or num_vertices == 0:
        points, vertices = torch.tensor([0, count]), torch.tensor([0, num_vertices])
    elif bool((batch[1:] >= batch[:-1]).all()):
        graph = vertex_batch.unique_consecutive()
        start = torch.zeros(1, dtype=torch.int64)
        points = torch.cat([start, torch.searchsorted(batch, graph, right=True)])
        vertices = torch.cat([start, torch.searchsorted(vertex_batch, graph, right=True)])
    else:
        return vertex.new_empty(0, 3)
    shared = points.diff() * corners // vertices.diff().clamp(min=1)  # corners at a vertex
    copies = torch.where(shared < 16, 1, (shared // 16).clamp(min=2, max=_MOST_COPIES))
    if int(copies.max()) == 1:
        return vertex.new_empty(0, 3)
    graph = torch.arange(len(copies)).repeat_interleave(copies)
    copy = torch.arange(len(graph)) - (copies.cumsum(0) - copies)[graph]
    size = points.diff()[graph]
    first = points[graph] + size * copy // copies[graph]
    last = points[graph] + size * (copy + 1) // copies[graph]
    return torch.stack([copy, first, last], 1).to(torch.int32)


def _count(flat: torch.Tensor, num_vertices: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A counting sort by stretches of corners."""
    device = flat.device
    # A count per vertex and stretch: no more of them than pay for themselves.
    stretches = max(1, min(_threads.count(), len(flat) // max(1, 2 * num_vertices)))
    length = max(1, -(-len(flat) // stretches))
    position = torch.zeros(stretches, num_vertices, dtype=torch.int32, device=device)
    tools = _warp.kernels(kernels.make, device=device)
    corner = _warp.array(flat, 1)
    described = (length, corner, _warp.array(position, 2))
    _warp.launch(tools.count, stretches, *described, device=device, grain=1)
    after = position.t().contiguous().view(-1).cumsum(0, dtype=torch.int64)
    after = after.view(num_vertices, stretches)
    begin = torch.zeros(num_vertices + 1, dtype=torch.int32, device=device)
    begin[1:] = after[:, -1]
    position = (after.t() - position).to(torch.int32).contiguous()
    order = _warp.empty(len(flat), dtype=torch.int32, device=device)
    outputs = (_warp.array(position, 2), _warp.array(order, 1))
    _warp.launch(tools.place, stretches, length, corner, *outputs, device=device, grain=1)
    return order, begin


def _sort(flat: torch.Tensor, num_vertices: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A stable sort, for devices where counting would need atomics."""
    vertex, order = torch.sort(flat, stable=True)
    edge = torch.arange(num_vertices + 1, dtype=vertex.dtype, device=vertex.device)
    return order.to(torch.int32), torch.searchsorted(vertex, edge, out_int32=True)


def _fake(vertex, num_vertices, batch, vertex_batch, sort):
    context = torch.library.get_ctx()
    order, begin, runs = (context.new_dynamic_size(min=0) for _ in range(3))
    return vertex.new_empty(order), vertex.new_empty(begin), vertex.new_empty(runs, 3)


plan = define(
    "plan(Tensor vertex, SymInt num_vertices, Tensor? batch, Tensor? vertex_batch, bool sort)"
    " -> (Tensor order, Tensor begin, Tensor runs)",
    _plan,
    _fake,
)
