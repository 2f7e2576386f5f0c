"""Fused slice → softmax → splat of mean-field inference on the CPU.

The filters and the compatibility transform at the vertices are the caller's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from permutogeo.kernels import mean_field as kernels
from permutogeo.kernels import mean_field_pair as pair_kernels
from permutogeo.ops.mean_field_blur import Blur, BlurFilter, Sums, expand
from permutogeo.ops.mean_field_points import Corners, JoinedPoints
from permutogeo.runtime import bridge, memory, threads

__all__ = ["Blur", "BlurFilter", "Corners", "FusedMeanField"]

# Points in the workspace of a run, and numbers: it stays in the first cache.
_MOST_POINTS = 256
_WORKSPACE = 1024
# Labels up to which values are copied to slots, next to those of the same points.
_FEW_LABELS = 4
_FEWEST_POINTS = 8192
_CPU = torch.device("cpu")

# A filter of a step: a blur, or any function from values at vertices ``[M, L]`` to such values.
VertexFilter = BlurFilter | Callable[[Tensor], Tensor]


class FusedMeanField:
    """Point-wise part of mean-field inference on the CPU, for kernels on several lattices.

    Args:
        unary: Logits of each point, ``[N, L]`` float32.
        lattices: The corners of the points on each lattice.
        difference: Whether two labels may be represented by their difference: all filters are
            linear, the same for both labels, and blurs without ``mix``.
    """

    def __init__(self, unary: Tensor, lattices: Sequence[Corners], difference: bool = False):
        count, labels = unary.shape
        difference = difference and labels == 2
        self._by_slot = labels <= _FEW_LABELS
        self._points = JoinedPoints(lattices, count, self._by_slot)
        self._rows: _Rows = (_PairRows if difference else _LabelRows)(unary, self._points)
        self._width, lanes = self._rows.width, self._rows.lanes
        self._labels = labels
        self._sums = self._zeros(self._points.num_slots)
        self._values = self._zeros(max(1, self._points.edge[-1]))
        self._at_slots = self._zeros(self._points.num_slots) if self._by_slot else self._values
        self._vertex_sums = [Sums(*slots, self._width, lanes) for slots in self._points.slots]
        self._has_messages = False

    @property
    def responses(self) -> list[Tensor | None]:
        """Response to ones at the vertices of each lattice; ``None`` if not normalized."""
        return self._points.response

    def step(self, filters: Sequence[VertexFilter]) -> None:
        """Splat the marginals of ``unary + sum of slices`` and filter them at the vertices."""
        self._rows.step(self._at_slots, self._sums, self._has_messages)
        jobs = [partial(self._filter, m, each) for m, each in enumerate(filters)]
        threads.run_without_grad(jobs)  # one thread per lattice
        if self._by_slot:
            expand(self._points.owner, self._values, self._at_slots)
        self._has_messages = True

    def marginals(self, log: bool = True) -> Tensor:
        """Return the marginals of ``unary + sum of slices``, or their logarithms, ``[N, L]``."""
        return self._rows.marginals(self._at_slots, self._has_messages, log)

    def _filter(self, m: int, vertex_filter: VertexFilter) -> None:
        """Filter the sums of one lattice."""
        first, last = self._points.edge[m : m + 2]
        values, sums = self._values[first:last], self._vertex_sums[m]
        if isinstance(vertex_filter, BlurFilter):
            sums.blur(self._sums, vertex_filter.blur, vertex_filter.factor, values)
            change = vertex_filter.mix
        else:
            sums.gather(self._sums, values)
            change = vertex_filter
        if change is not None:
            message = values[:, : self._labels]
            message.copy_(change(message))

    def _zeros(self, count: int) -> Tensor:
        shape = count, self._width
        return memory.full(*shape, value=0, dtype=torch.float32, device=_CPU)


class _Rows(ABC):
    """Rows of labels at points, and the kernels on them.

    Args:
        points: The points and their corners.
        lanes: Lanes of the blocks of a row.
        width: Numbers of a row, padded.
    """

    def __init__(self, points: JoinedPoints, lanes: int, width: int):
        self.points, self.lanes, self.width = points, lanes, width
        self.chunk = max(8, min(_MOST_POINTS, _WORKSPACE // width) // 8 * 8)
        shape = 2, points.num_runs * self.chunk, width
        self.workspace = memory.full(*shape, value=0, dtype=torch.float32, device=_CPU)

    @abstractmethod
    def step(self, values: Tensor, sums: Tensor, messages: bool) -> None:
        """Splat the marginals of ``unary + sum of slices``."""

    @abstractmethod
    def marginals(self, values: Tensor, messages: bool, log: bool) -> Tensor:
        """Return the marginals of ``unary + sum of slices``, or their logarithms, ``[N, L]``."""

    def launch(self, kernel: Any, *arguments: Any) -> None:
        bridge.launch(kernel, self.points.num_runs, *arguments, device=_CPU, grain=1)


class _PairRows(_Rows):
    """The difference of the logits of two labels."""

    def __init__(self, unary: Tensor, points: JoinedPoints):
        super().__init__(points, lanes=1, width=1)
        self._kernels = bridge.load_kernels(pair_kernels.make, points.corners, device=_CPU)
        self._unary = memory.empty(points.count, dtype=torch.float32, device=_CPU)
        bridge.launch(
            self._kernels.subtract,
            points.count,
            *(_vectors(unary.detach().contiguous(), 2), _vectors(self._unary, 1)),
            device=_CPU,
            grain=_FEWEST_POINTS,
        )

    def step(self, values: Tensor, sums: Tensor, messages: bool) -> None:
        points = self.points
        self.launch(
            self._kernels.step,
            *(bridge.array(points.runs, 1), bridge.array(points.base, 1)),
            *(self.chunk, int(messages)),
            *(bridge.array(each, 1) for each in (points.slot, points.target, points.source)),
            *(_vectors(each, 1) for each in (self._unary, values)),
            *(*self._described(0), _vectors(sums, 1)),
        )

    def marginals(self, values: Tensor, messages: bool, log: bool) -> Tensor:
        points = self.points
        out = memory.empty(points.count, 2, dtype=torch.float32, device=_CPU)
        self.launch(
            self._kernels.marginals,
            *(bridge.array(points.runs, 1), bridge.array(points.base, 1)),
            *(self.chunk, int(messages), int(log)),
            *(bridge.array(each, 1) for each in (points.slot, points.target)),
            *(_vectors(each, 1) for each in (self._unary, values)),
            *(*self._described(0), *self._described(1), _vectors(out, 2)),
        )
        return out

    def _described(self, part: int) -> list[Any]:
        """Describe a workspace as numbers, and as vectors for exponentials."""
        return [_vectors(self.workspace[part], lanes) for lanes in (1, kernels.FLAT)]


class _LabelRows(_Rows):
    """Logits of all labels, padded to blocks."""

    def __init__(self, unary: Tensor, points: JoinedPoints):
        self._labels = unary.shape[1]
        lanes = _lanes(self._labels)
        super().__init__(points, lanes, -(-self._labels // lanes) * lanes)
        self._blocks = self.width // lanes
        key = points.corners, lanes, self._blocks > 1
        self._kernels = bridge.load_kernels(kernels.make, *key, device=_CPU)
        self._unary = self._pad(unary.detach().contiguous())
        by_slot = points.vertex is points.slot
        self._begin = points.base if by_slot else torch.zeros_like(points.base)

    def step(self, values: Tensor, sums: Tensor, messages: bool) -> None:
        points = self.points
        self.launch(
            self._kernels.step,
            *(bridge.array(each, 1) for each in (points.runs, self._begin, points.base)),
            *self._sizes(values, messages),
            *(bridge.array(points.vertex, 1), bridge.array(points.target, 1)),
            *(bridge.array(points.slot, 1), bridge.array(points.source, 1)),
            *(_vectors(each, self.lanes) for each in (self._unary, values)),
            *(*self._described(0), _vectors(sums, self.lanes)),
        )

    def marginals(self, values: Tensor, messages: bool, log: bool) -> Tensor:
        points = self.points
        out = memory.empty(points.count, self._labels, dtype=torch.float32, device=_CPU)
        part = min(self.lanes, kernels.PART)
        shape = points.count, self._labels // part, part
        whole = out.as_strided(shape, (self._labels, part, 1))
        self.launch(
            self._kernels.marginals,
            *(bridge.array(points.runs, 1), bridge.array(self._begin, 1)),
            *(*self._sizes(values, messages), int(log)),
            *(bridge.array(points.vertex, 1), bridge.array(points.target, 1)),
            *(_vectors(each, self.lanes) for each in (self._unary, values)),
            *(*self._described(0), *self._described(1)[1:]),
            *(bridge.array(whole, 2), bridge.array(out, 2)),
        )
        return out

    def _pad(self, unary: Tensor) -> Tensor:
        """Return the rows of the points, padded."""
        count, labels = unary.shape
        out = memory.empty(count, self.width, dtype=torch.float32, device=_CPU)
        # Each row with the beginning of the next; the last one has none.
        shape = max(0, count - 1), self._blocks, self.lanes
        overlapping = unary.as_strided(shape, (labels, self.lanes, 1))
        rows = out.view(count, self._blocks, self.lanes)
        arrays = (unary, overlapping, rows, out)
        bridge.launch(
            self._kernels.pad,
            count,
            *(bridge.array(each, 2) for each in arrays),
            device=_CPU,
            grain=_FEWEST_POINTS,
        )
        return out

    def _sizes(self, values: Tensor, messages: bool) -> tuple[int, int, int, int]:
        """Describe the workspace and the rows."""
        fetch = memory.exceeds_cache(values)
        return self.chunk, self._blocks, int(messages), int(fetch)

    def _described(self, part: int) -> list[Any]:
        """Describe a workspace as blocks of labels, as their parts, and as vectors for
        exponentials."""
        widths = self.lanes, min(self.lanes, kernels.PART), kernels.FLAT
        return [_vectors(self.workspace[part], lanes) for lanes in widths]


def _vectors(rows: Tensor, lanes: int) -> Any:
    """Describe memory as vectors."""
    return bridge.array(rows.view(-1, lanes), 1)


def _lanes(labels: int) -> int:
    """Return the lanes of the vectors that hold a row of labels, padded."""
    if labels <= 4:
        return 2 if labels <= 2 else 4
    if labels <= kernels.WIDEST:
        return -(-labels // kernels.PART) * kernels.PART
    return kernels.FLAT
