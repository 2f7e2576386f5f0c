"""Fused slice → softmax → splat of mean-field inference on the CPU.

The filters and the compatibility transform at the vertices are the caller's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from permutogeo.kernels import mean_field as kernels
from permutogeo.ops.blur import sweep_blur
from permutogeo.runtime import bridge, memory, threads

# Runs of points, each of which one thread splats; fixed, so that results do not depend on threads.
_MOST_RUNS = 8
_FEWEST_POINTS = 8192
# Points in the workspace of a run, and numbers: it stays in the first cache.
_MOST_POINTS = 256
_WORKSPACE = 1024
# Steps, and vertices of a lattice per point, from which on sorting the points pays.
_FEWEST_STEPS = 5
_FEWEST_VERTICES = 0.3
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
            columns and zeros in the last row, which stay.
        moves: Whether the result of ``apply`` is in the buffer, not in place of the values. The
            other of the two is zero afterwards.
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
        num_steps: Number of steps to come.
    """

    def __init__(self, unary: Tensor, lattices: Sequence[Corners], num_steps: int = 1):
        self.count, self.labels = unary.shape
        self._runs = _cut(self.count)
        self._lanes = _lanes(self.labels)
        self._width = -(-self.labels // self._lanes) * self._lanes
        # Each lattice has a row of zeros behind its vertices, which absent neighbors read.
        edge = list(accumulate((each.num_vertices + 1 for each in lattices), initial=0))
        self._regions = [
            (first, each.num_vertices) for first, each in zip(edge, lattices, strict=False)
        ]
        order = _order(lattices, self.count, num_steps)
        rows = [each.vertex + row for row, each in zip(edge, lattices, strict=False)]
        self._vertex = _join(rows, order)
        self._target = _join([each.target for each in lattices], order)
        same = all(each.source is each.target for each in lattices)
        self._source = self._target if same else _join([each.source for each in lattices], order)
        # Row in the result of each point.
        self._order = torch.arange(self.count, dtype=torch.int32) if order is None else order
        corners = self._vertex.shape[1]
        self._kernels = bridge.load_kernels(kernels.make, corners, self._lanes, device=_CPU)
        self._unary = self._rows(self.count)
        self._unary[:, self.labels :] = -math.inf
        given = unary.detach() if order is None else unary.detach().index_select(0, order)
        memory.copy(self._unary[:, : self.labels], given)
        self._slot, self._begin = self._assign_slots(edge[-1])
        self._values = self._zeros(edge[-1])
        self._sums = self._zeros(edge[-1] + int(self._begin[-1]))
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
        blocks = (self.count, self.labels // self._lanes, self._lanes)
        whole = out.as_strided(blocks, (self.labels, self._lanes, 1))
        bridge.launch(
            self._kernels.marginals,
            len(self._runs),
            *(*self._sizes(), int(self._has_messages), int(log)),
            *(bridge.array(part, 1) for part in (self._vertex, self._target)),
            *(self._blocks(self._unary), self._blocks(self._values)),
            *(*self._described_workspace(0), *self._described_workspace(1)),
            *(bridge.array(self._order, 1), bridge.array(whole, 2), bridge.array(out, 2)),
            device=_CPU,
            grain=1,
        )
        return out

    def _filter(self, first: int, count: int, vertex_filter: VertexFilter) -> None:
        """Sum the slots of the vertices of one lattice and filter them."""
        sums, values = (each[first : first + count + 1] for each in (self._sums, self._values))
        # The result must end in the values.
        into = self._sums if vertex_filter.moves else self._values
        bridge.launch(
            self._kernels.combine,
            count,
            *(first, self._width // self._lanes, bridge.array(self._begin, 1)),
            int(vertex_filter.moves),
            *(self._blocks(self._sums), self._blocks(into)),
            device=_CPU,
        )
        if vertex_filter.moves:
            vertex_filter.apply(sums, values)
        else:
            vertex_filter.apply(values, sums)

    def _assign_slots(self, rows: int) -> tuple[Tensor, Tensor]:
        """Return the slot in the sums of each corner, and where the further slots of each vertex
        begin.

        A vertex with points of several runs has a slot for each of them, behind all vertices, so
        that threads do not write to the same place.
        """
        begin = torch.zeros(rows + 1, dtype=torch.int32)
        if len(self._runs) == 1:
            return self._vertex, begin
        run, vertex = bridge.array(self._runs, 2), bridge.array(self._vertex, 1)
        shape = (len(self._runs), rows)
        used = memory.full(*shape, value=0, dtype=torch.int32, device=_CPU)
        marks = bridge.array(used, 2)
        launch = partial(bridge.launch, device=_CPU)
        launch(self._kernels.touch, len(self._runs), run, vertex, marks, grain=1)
        more = torch.empty(rows, dtype=torch.int32)
        launch(self._kernels.count, rows, marks, bridge.array(more, 1), grain=_FEWEST_POINTS)
        torch.cumsum(more, 0, dtype=torch.int32, out=begin[1:])
        launch(self._kernels.number, rows, bridge.array(begin, 1), marks, grain=_FEWEST_POINTS)
        slot = memory.empty(*self._vertex.shape, dtype=torch.int32, device=_CPU)
        launch(
            self._kernels.place, len(self._runs), run, vertex, marks, bridge.array(slot, 1), grain=1
        )
        return slot, begin

    def _rows(self, *count: int) -> Tensor:
        """Allocate rows of padded labels."""
        return memory.empty(*count, self._width, dtype=torch.float32, device=_CPU)

    def _zeros(self, *count: int) -> Tensor:
        shape = (*count, self._width)
        return memory.full(*shape, value=0, dtype=torch.float32, device=_CPU)

    def _sizes(self) -> tuple[Any, int, int]:
        """Describe the runs, the points of their workspace and the blocks of a row."""
        points, blocks = self._workspace.shape[2], self._width // self._lanes
        return bridge.array(self._runs, 2), points, blocks

    def _blocks(self, rows: Tensor) -> Any:
        """Describe rows as blocks of labels, one after another."""
        return bridge.array(rows.view(-1, self._lanes), 1)

    def _described_workspace(self, part: int) -> list[Any]:
        """Describe a workspace as blocks of labels, and as vectors for exponentials."""
        rows = self._workspace[part]
        return [self._blocks(rows), bridge.array(rows.view(len(rows), -1, kernels.FLAT), 2)]


def _lanes(labels: int) -> int:
    """Return the lanes of the vectors that hold a row of labels, padded."""
    return 2 if labels <= 2 else 4 if labels <= 4 else 8


def _cut(count: int) -> Tensor:
    """Return the first and last point of each run, ``[R, 2]``."""
    runs = max(1, min(_MOST_RUNS, count // _FEWEST_POINTS))
    edge = torch.tensor([count * i // runs for i in range(runs + 1)], dtype=torch.int32)
    return torch.stack([edge[:-1], edge[1:]], 1)


def _order(lattices: Sequence[Corners], count: int, num_steps: int) -> Tensor | None:
    """Return an order in which points of one place on the largest lattice follow each other, so
    that its vertices are in the cache; ``None`` where sorting takes longer than it saves."""
    largest = max(lattices, key=lambda each: each.num_vertices)
    if num_steps < _FEWEST_STEPS or largest.num_vertices < _FEWEST_VERTICES * count:
        return None
    # Sorted with the index, since NumPy's fast sort is not stable.
    key = largest.vertex[:, 0].numpy().astype(np.int64) << 32
    key |= np.arange(count)
    key.sort()
    return torch.from_numpy(key.astype(np.int32))


def _join(parts: Sequence[Tensor], order: Tensor | None) -> Tensor:
    """Concatenate columns, in the given order of rows."""
    parts = [
        part.detach() if order is None else part.detach().index_select(0, order) for part in parts
    ]
    if len(parts) == 1:
        return parts[0].contiguous()
    width = sum(part.shape[1] for part in parts)
    out = memory.empty(len(parts[0]), width, dtype=parts[0].dtype, device=_CPU)
    first = 0
    for part in parts:
        memory.copy(out[:, first : first + part.shape[1]], part)
        first += part.shape[1]
    return out
