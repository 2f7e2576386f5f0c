"""Fused slice → softmax → splat of mean-field inference on the CPU.

The filters and the compatibility transform at the vertices are the caller's.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from permutogeo.kernels import mean_field as kernels
from permutogeo.kernels import mean_field_pair as pair_kernels
from permutogeo.ops.mean_field_blur import Blur, BlurFilter, Slots
from permutogeo.ops.mean_field_points import Corners, JoinedPoints
from permutogeo.runtime import bridge, memory, threads

__all__ = ["Blur", "BlurFilter", "Corners", "FusedMeanField"]

# Points in the workspace of a run, and numbers: it stays in the first cache.
_MOST_POINTS = 256
_WORKSPACE = 512
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
        self._points = JoinedPoints(lattices, count)
        self._rows: _Rows = (_PairRows if difference else _LabelRows)(unary, self._points)
        sums, values, lanes = self._rows.sums, self._rows.values, self._rows.lanes
        self._slots = [Slots(*slots, sums, values, lanes) for slots in self._points.slots]
        self._labels = labels
        self._has_messages = False

    @property
    def responses(self) -> list[Tensor | None]:
        """Response to ones at the vertices of each lattice; ``None`` if not normalized."""
        return self._points.response

    def step(self, filters: Sequence[VertexFilter]) -> None:
        """Splat the marginals of ``unary + sum of slices`` and filter them at the vertices."""
        self._rows.step(self._has_messages)
        jobs = [partial(self._filter, *each) for each in zip(self._slots, filters, strict=True)]
        # One thread per lattice.
        if all(isinstance(each, BlurFilter) and each.mix is None for each in filters):
            threads.run_jobs(jobs)
        else:
            threads.run_without_grad(jobs)
        self._has_messages = True

    def marginals(self, log: bool = True) -> Tensor:
        """Return the marginals of ``unary + sum of slices``, or their logarithms, ``[N, L]``."""
        return self._rows.marginals(self._has_messages, log)

    def _filter(self, slots: Slots, vertex_filter: VertexFilter) -> None:
        """Filter the sums of one lattice."""
        change: Callable[[Tensor], Tensor] | None
        if isinstance(vertex_filter, BlurFilter):
            change, blur, factor = vertex_filter.mix, vertex_filter.blur, vertex_filter.factor
            if change is None:
                slots.blur(blur, factor)
                return
            rows = slots.blur_to_vertices(blur, factor)
        else:
            change, rows = vertex_filter, slots.gather()
        message = rows[:, : self._labels]
        message.copy_(change(message))
        slots.scatter(rows)


class _Rows(ABC):
    """Rows of labels at points and at slots, and the kernels on them.

    Args:
        points: The points and their corners.
        lanes: Lanes of the blocks of a row.
        width: Numbers of a row, padded.

    Attributes:
        sums: Sums at slots, ``[S, width]``; 0 before each step.
        values: Filtered values at slots, ``[S, width]``.
    """

    def __init__(self, points: JoinedPoints, lanes: int, width: int):
        self.points, self.lanes, self.width = points, lanes, width
        self.chunk = max(8, min(_MOST_POINTS, _WORKSPACE // width) // 8 * 8)
        self.workspace = _zeros(2, points.num_runs * self.chunk, width)
        self.sums = _zeros(points.num_slots, width)
        self.values = memory.empty(points.num_slots, width, dtype=torch.float32, device=_CPU)

    @abstractmethod
    def step(self, messages: bool) -> None:
        """Splat the marginals of ``unary + sum of slices``."""

    @abstractmethod
    def marginals(self, messages: bool, log: bool) -> Tensor:
        """Return the marginals of ``unary + sum of slices``, or their logarithms, ``[N, L]``."""

    def launch(self, kernel: Any, *arguments: Any) -> None:
        """Run a kernel on the runs of points."""
        points = self.points
        runs = (points.runs, points.base, self.chunk)
        bridge.launch(kernel, points.num_runs, *runs, *arguments, device=_CPU, grain=1)


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

    def step(self, messages: bool) -> None:
        points = self.points
        self.launch(
            self._kernels.step,
            int(messages),
            *(points.slot, points.target, points.source),
            *(_vectors(each, 1) for each in (self._unary, self.values)),
            *(*self._views(0), _vectors(self.sums, 1)),
        )

    def marginals(self, messages: bool, log: bool) -> Tensor:
        points = self.points
        out = memory.empty(points.count, 2, dtype=torch.float32, device=_CPU)
        self.launch(
            self._kernels.marginals,
            *(int(messages), int(log)),
            *(points.slot, points.target),
            *(_vectors(each, 1) for each in (self._unary, self.values)),
            *(*self._views(0), *self._views(1), _vectors(out, 2)),
        )
        return out

    def _views(self, part: int) -> list[Tensor]:
        """Return a workspace as numbers, and as vectors for exponentials."""
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
        self._unary = unary.detach().contiguous()
        last = self._labels - self.width + lanes  # labels in the last block
        self._padding = self._kernels.Row(*[0.0] * last, *[-math.inf] * (lanes - last))
        missing = 0, self.width - self._labels
        self._tail = torch.nn.functional.pad(self._unary[-1:], missing, value=-math.inf)

    def step(self, messages: bool) -> None:
        self.launch(
            self._kernels.step,
            *self._sizes(messages),
            *(self.points.slot, self.points.target, self.points.source, self._unary),
            *(_vectors(each, self.lanes) for each in (self._tail, self.values)),
            *(*self._views(0), _vectors(self.sums, self.lanes)),
        )

    def marginals(self, messages: bool, log: bool) -> Tensor:
        points = self.points
        out = memory.empty(points.count, self._labels, dtype=torch.float32, device=_CPU)
        self.launch(
            self._kernels.marginals,
            *(*self._sizes(messages), int(log)),
            *(points.slot, points.target, self._unary),
            *(_vectors(each, self.lanes) for each in (self._tail, self.values)),
            *(*self._views(0), *self._views(1)[1:]),
            *(out, out),  # as vectors, and the labels behind them
        )
        return out

    def _sizes(self, messages: bool) -> list[Any]:
        """Describe the rows."""
        # Slots of a run are numbered in the order of its points.
        fetch = memory.exceeds_cache(self.values[: len(self.values) // self.points.num_runs])
        return [self._blocks, self._padding, int(messages), int(fetch)]

    def _views(self, part: int) -> list[Tensor]:
        """Return a workspace as blocks of labels, as their parts, and as vectors for
        exponentials."""
        widths = self.lanes, min(self.lanes, kernels.PART), kernels.FLAT
        return [_vectors(self.workspace[part], lanes) for lanes in widths]


def _zeros(*shape: int) -> Tensor:
    return memory.full(*shape, value=0, dtype=torch.float32, device=_CPU)


def _vectors(rows: Tensor, lanes: int) -> Tensor:
    """Return memory as rows of one vector each."""
    return rows.view(-1, lanes)


def _lanes(labels: int) -> int:
    """Return the lanes of the vectors that hold a row of labels, padded."""
    if labels <= 4:
        return 2 if labels <= 2 else 4
    if labels <= kernels.WIDEST:
        return -(-labels // kernels.PART) * kernels.PART
    return kernels.FLAT
