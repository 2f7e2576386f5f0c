"""Fused slice → softmax → splat of mean-field inference on the CPU.

The filters and the compatibility transform at the vertices are the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from permutogeo.kernels import mean_field as kernels
from permutogeo.kernels import mean_field_points as point_kernels
from permutogeo.ops.blur import sweep_blur
from permutogeo.runtime import bridge, memory, threads

# Runs of points, each of which one thread splats; fixed, so that results do not depend on threads.
_MOST_RUNS = 8
_FEWEST_POINTS = 8192
# Points in the workspace of a run, and numbers: it stays in the first cache.
_MOST_POINTS = 256
_WORKSPACE = 1024
# Rows of labels that fill whole cache lines.
_LINE = 16
_CPU = torch.device("cpu")


@dataclass(frozen=True, eq=False)
class Corners:
    """Corners of the points on one lattice.

    Args:
        vertex: Vertices of each point, ``[N, k]`` int32, none absent.
        source: Weights of the splat, ``[N, k]``.
        target: Weights of the slice, ``[N, k]``.
        num_vertices: Vertices of the lattice.
    """

    vertex: Tensor
    source: Tensor
    target: Tensor
    num_vertices: int


@dataclass(frozen=True, eq=False)
class VertexFilter:
    """Filter on values at the vertices of one lattice.

    Args:
        apply: Called with the values and a buffer, both ``[M + 1, W]`` with the labels in the first
            columns and zeros in the last row, which stay. The rest of the buffer is undefined.
        moves: Whether the result of ``apply`` is in the buffer, not in place of the values.
    """

    apply: Callable[[Tensor, Tensor], None]
    moves: bool


def blur_filter(
    neighbors: Tensor, dim: int, taps: Sequence[float], reach: int, factor: float
) -> VertexFilter:
    """Return the separable blur times a factor; see ``sweep_blur`` of ``ops/blur.py``."""

    def apply(values: Tensor, buffer: Tensor) -> None:
        lanes = _lanes(values.shape[1])
        sweep_blur(values, buffer, neighbors, dim, taps, reach, factor, lanes)

    return VertexFilter(apply, moves=dim % 2 == 0)


class FusedMeanField:
    """Point-wise part of mean-field inference on the CPU, for kernels on several lattices.

    Args:
        unary: Logits of each point, ``[N, L]`` float32.
        lattices: The corners of the points on each lattice.
    """

    def __init__(self, unary: Tensor, lattices: Sequence[Corners]):
        self.count, self.labels = unary.shape
        self._runs = _cut(self.count)
        self._lanes = _lanes(self.labels)
        self._width = -(-self.labels // self._lanes) * self._lanes
        # Each lattice has a row of zeros behind its vertices, which absent neighbors read.
        edge = list(accumulate((each.num_vertices + 1 for each in lattices), initial=0))
        self._regions = [
            (first, each.num_vertices) for first, each in zip(edge, lattices, strict=False)
        ]
        corners = sum(each.vertex.shape[1] for each in lattices)
        self._kernels = bridge.load_kernels(kernels.make, corners, self._lanes, device=_CPU)
        self._unary = self._pad(unary.detach().contiguous())
        self._vertex, self._source, self._target = self._join(lattices, corners)
        self._slot, self._slots, slots = self._assign_slots(edge[-1])
        self._sums, self._values = self._zeros(slots), self._zeros(edge[-1])
        self._buffer = self._zeros(edge[-1])
        points = max(8, min(_MOST_POINTS, _WORKSPACE // self._width) // 8 * 8)
        self._workspace = self._zeros(2, len(self._runs), points)
        self._has_messages = False

    def step(self, filters: Sequence[VertexFilter]) -> None:
        """Splat the marginals of ``unary + sum of slices`` and filter them at the vertices."""
        bridge.launch(
            self._kernels.step,
            len(self._runs),
            *(*self._sizes(), int(self._has_messages)),
            *(bridge.array(part, 1) for part in (self._vertex, self._target)),
            *(bridge.array(part, 1) for part in (self._slot, self._source)),
            *(self._blocks(self._unary), self._blocks(self._values)),
            *self._described_workspace(0),
            self._blocks(self._sums),
            device=_CPU,
            grain=1,
        )
        jobs = [
            partial(self._filter, *region, each)
            for region, each in zip(self._regions, filters, strict=True)
        ]
        threads.run_without_grad(jobs)  # one thread per lattice
        self._has_messages = True

    def marginals(self, log: bool = True) -> Tensor:
        """Return the marginals of ``unary + sum of slices``, or their logarithms, ``[N, L]``."""
        out = memory.empty(self.count, self.labels, dtype=torch.float32, device=_CPU)
        part = min(self._lanes, kernels.PART)
        whole = out.as_strided((self.count, self.labels // part, part), (self.labels, part, 1))
        bridge.launch(
            self._kernels.marginals,
            len(self._runs),
            *(*self._sizes(), int(self._has_messages), int(log)),
            *(bridge.array(part, 1) for part in (self._vertex, self._target)),
            *(self._blocks(self._unary), self._blocks(self._values)),
            *(*self._described_workspace(0), *self._described_workspace(1)[1:]),
            *(bridge.array(whole, 2), bridge.array(out, 2)),
            device=_CPU,
            grain=1,
        )
        return out

    def _filter(self, first: int, count: int, vertex_filter: VertexFilter) -> None:
        """Sum the slots of the vertices of one lattice and filter them."""
        # The result must end in the values.
        pair = self._values, self._buffer
        into, other = reversed(pair) if vertex_filter.moves else pair
        bridge.launch(
            self._kernels.combine,
            count,
            *(first, *(bridge.array(part, 1) for part in self._slots)),
            *(self._blocks(self._sums), self._blocks(into)),
            device=_CPU,
        )
        vertex_filter.apply(*(each[first : first + count + 1] for each in (into, other)))

    def _pad(self, unary: Tensor) -> Tensor:
        """Return the rows of the points, padded."""
        out = memory.empty(self.count, self._width, dtype=torch.float32, device=_CPU)
        # Each row with the beginning of the next; the last one has none.
        blocks = (max(0, self.count - 1), self._width // self._lanes, self._lanes)
        overlapping = unary.as_strided(blocks, (self.labels, self._lanes, 1))
        bridge.launch(
            self._kernels.pad,
            self.count,
            *(bridge.array(unary, 2), bridge.array(overlapping, 2)),
            *(self._blocks(out), bridge.array(out, 2)),
            device=_CPU,
            grain=_FEWEST_POINTS,
        )
        return out

    def _join(self, lattices: Sequence[Corners], corners: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the vertices and the weights of the points on all lattices."""
        shape = (self.count, corners)
        vertex = memory.empty(*shape, dtype=torch.int32, device=_CPU)
        target = memory.empty(*shape, dtype=torch.float32, device=_CPU)
        same = all(each.source is each.target for each in lattices)
        source = target if same else torch.empty_like(target)
        launch = partial(bridge.launch, device=_CPU, grain=_FEWEST_POINTS)
        first = 0
        for (row, _), each in zip(self._regions, lattices, strict=True):
            last = first + each.vertex.shape[1]
            run = bridge.load_kernels(point_kernels.make_corners, last - first, device=_CPU)
            out = bridge.array(vertex[:, first:last], 1)
            given = each.vertex.contiguous()
            launch(run.vertices, self.count, row, bridge.array(given, 1), out)
            for weight, into in [(each.target, target), (each.source, source)][: 2 - same]:
                out = bridge.array(into[:, first:last], 1)
                given = weight.detach().contiguous()
                launch(run.weights, self.count, bridge.array(given, 1), out)
            first = last
        return vertex, source, target

    def _assign_slots(self, rows: int) -> tuple[Tensor, tuple[Tensor, Tensor], int]:
        """Return the slot in the sums of each corner, the slots of each vertex, where they begin
        and which, and the number of slots.

        Each run has its own slots, so that threads do not write to the same place.
        """
        runs = len(self._runs)
        corners = self._vertex.shape[1]
        tools = bridge.load_kernels(point_kernels.make_slots, corners, device=_CPU)
        run, vertex = bridge.array(self._runs, 2), bridge.array(self._vertex, 1)
        used = memory.full(runs, rows, value=0, dtype=torch.int32, device=_CPU)
        marks = bridge.array(used, 2)
        by_run = partial(bridge.launch, device=_CPU, grain=1)
        by_vertex = partial(bridge.launch, device=_CPU, grain=_FEWEST_POINTS)
        size = torch.empty(runs, dtype=torch.int32)
        by_run(tools.touch, runs, run, vertex, marks, bridge.array(size, 1))
        # Runs begin at whole cache lines.
        edge = list(accumulate((-(-each // _LINE) * _LINE for each in size.tolist()), initial=0))
        first = torch.tensor(edge[:-1], dtype=torch.int32)
        slot = memory.empty(*self._vertex.shape, dtype=torch.int32, device=_CPU)
        into = bridge.array(slot, 1)
        by_run(tools.number, runs, run, vertex, bridge.array(first, 1), marks, into)
        number = torch.empty(rows, dtype=torch.int32)
        by_vertex(tools.count, rows, marks, bridge.array(number, 1))
        begin = torch.zeros(rows + 1, dtype=torch.int32)
        torch.cumsum(number, 0, dtype=torch.int32, out=begin[1:])
        slots = torch.empty(int(begin[-1]), dtype=torch.int32)
        out = bridge.array(begin, 1), bridge.array(slots, 1)
        by_vertex(tools.collect, rows, marks, *out)
        return slot, (begin, slots), edge[-1]

    def _zeros(self, *count: int) -> Tensor:
        """Allocate rows of padded labels."""
        shape = (*count, self._width)
        return memory.full(*shape, value=0, dtype=torch.float32, device=_CPU)

    def _sizes(self) -> tuple[Any, int]:
        """Describe the runs and the points of their workspace."""
        return bridge.array(self._runs, 2), self._workspace.shape[2]

    def _blocks(self, rows: Tensor, lanes: int = 0) -> Any:
        """Describe rows as blocks of labels."""
        lanes = lanes or self._lanes
        return bridge.array(rows.view(len(rows), self._width // lanes, lanes), 2)

    def _described_workspace(self, part: int) -> list[Any]:
        """Describe a workspace as blocks of labels, as their parts, and as vectors for
        exponentials."""
        runs = self._workspace[part]
        rows = runs.view(-1, self._width)
        flat = bridge.array(runs.view(len(runs), -1, kernels.FLAT), 2)
        return [self._blocks(rows), self._blocks(rows, min(self._lanes, kernels.PART)), flat]


def _lanes(labels: int) -> int:
    """Return the lanes of the vectors that hold a row of labels, padded."""
    if labels <= 4:
        return 2 if labels <= 2 else 4
    if labels <= kernels.WIDEST:
        return -(-labels // kernels.PART) * kernels.PART
    return kernels.FLAT


def _cut(count: int) -> Tensor:
    """Return the first and last point of each run, ``[R, 2]``."""
    runs = max(1, min(_MOST_RUNS, count // _FEWEST_POINTS))
    edge = torch.tensor([count * i // runs for i in range(runs + 1)], dtype=torch.int32)
    return torch.stack([edge[:-1], edge[1:]], 1)
