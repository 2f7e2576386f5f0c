"""Plan of a splat: in which order the points are summed at each vertex.

The order depends only on the points of the vertex's own graph, so that results are bit-identical
on any number of threads and in any batch.
"""

from __future__ import annotations

import numpy as np
import torch

from permutogeo.kernels import plan as kernels
from permutogeo.ops._library import define
from permutogeo.runtime import bridge, memory, threads

_MOST_COPIES = 8
# Corners that one thread sums or sorts sooner than another wakes up.
_FEW_CORNERS = 8192
# Threads that sum sorted corners no faster than one adds those of point after point.
_FEW_THREADS = 2


def _plan(
    vertex: torch.Tensor,
    num_vertices: int,
    batch: torch.Tensor | None,
    vertex_batch: torch.Tensor | None,
    sort: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Choose between private copies of the values for runs of points, and sorted corners.

    Args:
        sort: Sort the corners where copies do not pay. Without, all points are one run on the CPU,
            which sums in the same order on one thread.

    Returns:
        ``order`` and ``begin``, the corners sorted by vertex, and ``runs [R, 5]``: copy, first and
        last point, first and last vertex of the graph, sorted by copy and graph. Either the first
        two or the last one are empty.
    """
    vertex = vertex.contiguous()
    if vertex.device.type == "cpu":
        runs = _runs(vertex, num_vertices, batch, vertex_batch)
        if not (runs.shape[0] or sort):
            runs = torch.tensor([[0, 0, vertex.shape[0], 0, num_vertices]], dtype=torch.int32)
        if runs.shape[0]:
            return vertex.new_empty(0), vertex.new_empty(0), runs
    return *_order(vertex, num_vertices), vertex.new_empty(0, 5)


def sorting_pays(vertex: torch.Tensor) -> bool:
    """Return whether repeated splats are faster with sorted corners; a GPU sorts them always."""
    if vertex.device.type != "cpu":
        return False
    return vertex.numel() > _FEW_CORNERS and threads.count() > _FEW_THREADS


def _order(vertex: torch.Tensor, num_vertices: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the corners sorted by vertex, and the first of each vertex."""
    transpose = _count if vertex.device.type == "cpu" else _sort
    return transpose(vertex.contiguous().view(-1), num_vertices)


def _runs(
    vertex: torch.Tensor,
    num_vertices: int,
    batch: torch.Tensor | None,
    vertex_batch: torch.Tensor | None,
) -> torch.Tensor:
    """Split the points of each graph into one run per copy of its vertices.

    The more points share a vertex, the more copies. Empty if no graph needs a second copy.
    """
    count, corners = vertex.shape
    if batch is None or vertex_batch is None or num_vertices == 0:
        if count * corners < 16 * num_vertices:
            return vertex.new_empty(0, 5)
        points, vertices = np.array([0, count]), np.array([0, num_vertices])
    else:
        of_point, of_vertex = batch.numpy(), vertex_batch.numpy()
        if not (of_point[1:] >= of_point[:-1]).all():
            return vertex.new_empty(0, 5)
        last = np.append(of_vertex[1:] != of_vertex[:-1], True)
        vertices = np.append(0, np.flatnonzero(last) + 1)
        points = np.append(0, np.searchsorted(of_point, of_vertex[last], side="right"))
    size = np.diff(points)
    shared = size * corners // np.maximum(np.diff(vertices), 1)  # corners per vertex
    copies = np.where(shared < 16, 1, (shared // 16).clip(2, _MOST_COPIES))
    if copies.max() == 1:
        return vertex.new_empty(0, 5)
    graph = np.arange(len(copies)).repeat(copies)
    copy = np.arange(len(graph)) - (copies.cumsum() - copies)[graph]
    first = points[graph] + size[graph] * copy // copies[graph]
    last = points[graph] + size[graph] * (copy + 1) // copies[graph]
    runs = np.stack([copy, first, last, vertices[graph], vertices[graph + 1]], 1)
    return torch.from_numpy(runs[copy.argsort(kind="stable")].astype(np.int32))


def _count(flat: torch.Tensor, num_vertices: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sort corners by vertex: a counting sort over runs of corners."""
    device = flat.device
    size = flat.shape[0]
    begin = torch.zeros(num_vertices + 1, dtype=torch.int32, device=device)
    order = memory.empty(size, dtype=torch.int32, device=device)
    tools = bridge.load_kernels(kernels.make, device=device)
    # Each run needs a counter per vertex.
    runs = min(threads.count(), size // max(1, 2 * num_vertices))
    if runs <= 1 or size <= _FEW_CORNERS:
        bridge.launch(tools.sort, 1, flat, begin, order, device=device)
        return order, begin
    length = -(-size // runs)
    position = torch.zeros(runs, num_vertices, dtype=torch.int32, device=device)
    bridge.launch(tools.count, runs, length, flat, position, device=device, grain=1)
    after = position.t().contiguous().view(-1).cumsum(0, dtype=torch.int64)
    after = after.view(num_vertices, runs)
    begin[1:] = after[:, -1]
    position = (after.t() - position).to(torch.int32).contiguous()
    bridge.launch(tools.place, runs, length, flat, position, order, device=device, grain=1)
    return order, begin


def _sort(flat: torch.Tensor, num_vertices: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sort corners by vertex: a stable sort, for devices where counting would need atomics."""
    vertex, order = torch.sort(flat, stable=True)
    edge = torch.arange(num_vertices + 1, dtype=vertex.dtype, device=vertex.device)
    return order.to(torch.int32), torch.searchsorted(vertex, edge, out_int32=True)


def _fake(vertex, num_vertices, batch, vertex_batch, sort):
    context = torch.library.get_ctx()
    order, begin, runs = (context.new_dynamic_size(min=0) for _ in range(3))
    return vertex.new_empty(order), vertex.new_empty(begin), vertex.new_empty(runs, 5)


splat_plan = define(
    "splat_plan(Tensor vertex, SymInt num_vertices, Tensor? batch, Tensor? vertex_batch, bool sort)"
    " -> (Tensor order, Tensor begin, Tensor runs)",
    _plan,
    _fake,
)

vertex_order = define(
    "vertex_order(Tensor vertex, SymInt num_vertices) -> (Tensor order, Tensor begin)",
    _order,
    lambda vertex, num_vertices: (
        vertex.new_empty(vertex.numel()),
        vertex.new_empty(num_vertices + 1),
    ),
)
