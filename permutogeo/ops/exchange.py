"""The part of mean field that touches points, without a pass over them in memory: values are read
at corners, and the softmax of their sum with the unaries is added up at corners again.

What happens at vertices in between, blur or convolution and compatibility, is the business of
others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from permutogeo import _warp
from permutogeo.kernels import exchange as kernels

# Points at a time: their marginals stay in the cache, and starting a kernel costs next to nothing.
_CHUNK = 16384
# Sums of their own that stretches of points can afford, for corners that meet at a vertex.
_CORNERS_PER_SUM = 16
_MOST_SUMS = 8
# Stretches of whole graphs, which need no sums of their own.
_MOST_STRETCHES = 16
# Stands in for the logit of a label that is only there to fill a vector.
_NEVER = -1e30


class Exchange:
    """Points between lattices, on a CPU.

    Args:
        unary: Logits of each point, ``[N, L]`` float32.
        vertex: Corners of each point on each lattice, ``[N, k]`` int32, none absent.
        source: Weights for adding up, ``[N, k]``.
        target: Weights for reading, ``[N, k]``.
        num_vertices: Vertices of each lattice.
        batch: Graph of each point; graphs share no vertex.
    """

    def __init__(
        self,
        unary: torch.Tensor,
        vertex: Sequence[torch.Tensor],
        source: Sequence[torch.Tensor],
        target: Sequence[torch.Tensor],
        num_vertices: Sequence[int],
        batch: torch.Tensor | None = None,
    ):
        self.count, self.labels = unary.shape
        self.unary = self._pad(unary.detach(), _NEVER)
        self.vertex = [corners.contiguous() for corners in vertex]
        self.source = [weight.detach().contiguous() for weight in source]
        self.target = [weight.detach().contiguous() for weight in target]
        self.num_vertices = num_vertices
        # By sizes alone, so that the bits do not depend on threads.
        self.stretches = _between_graphs(batch)
        self.sums = 1
        if len(self.stretches) < 2:
            shared = min(
                self.count * corners.shape[1] // max(1, size)
                for corners, size in zip(vertex, num_vertices, strict=True)
            )
            many = max(2, min(_MOST_SUMS, shared // _CORNERS_PER_SUM))
            self.sums = many if self.count > _CHUNK else 1
            self.stretches = _cut(self.count, self.sums)
        # Kept from step to step: fresh memory would cost as much as the work on it.
        self._totals = [self._rows(self.sums, size) for size in num_vertices]

    def step(
        self, values: Sequence[torch.Tensor], filters: Sequence[Callable]
    ) -> list[torch.Tensor]:
        """The marginals of ``unary + sum of slices``, added up at vertices and filtered there.

        Args:
            values: What the last step returned, or nothing.
            filters: What is done at the vertices of each lattice: from ``[M, W]``, the labels
                and columns of zeros to fill vectors, to ``[M, W]`` or to the labels alone.
        """
        sums = self._splat(values)
        out: list = [None] * len(sums)

        def work(m: int) -> None:
            total, *others = sums[m]
            for other in others:
                total += other
            out[m] = self._pad(filters[m](total), 0.0)

        # A lattice to a thread: one is too small to be shared.
        _warp.run([partial(work, m) for m in range(len(sums))])
        return out

    def _splat(self, values: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Sums ``[S, M, W]`` for each lattice: one for each stretch of points, or one for all where
        stretches share no vertex."""
        if self.sums == 1:
            for total in self._totals:
                total.zero_()

        def work(number: int) -> None:
            marginals = self._chunk(number)
            mine = [total[number % self.sums] for total in self._totals]
            if self.sums > 1:
                for total in mine:
                    total.zero_()
            adds = [
                self._prepare(m, "scatter", self.source[m], marginals, total)
                for m, total in enumerate(mine)
            ]
            for start, logits in self._logits(values, number):
                torch.softmax(logits, 1, out=marginals[: len(logits)])
                for add in adds:
                    add(start, len(logits))

        _warp.run([partial(work, number) for number in range(len(self.stretches))])
        return self._totals

    def marginals(self, values: Sequence[torch.Tensor], log: bool = True) -> torch.Tensor:
        """The marginals of ``unary + sum of slices``, or their logarithms, ``[N, L]``."""
        normalize = torch.log_softmax if log else torch.softmax
        shape = (self.count, self.labels)
        out = _warp.empty(*shape, dtype=self.unary.dtype, device=self.unary.device)

        def work(number: int) -> None:
            marginals = self._chunk(number)
            for start, logits in self._logits(values, number):
                rows = marginals[: len(logits)]
                normalize(logits, 1, out=rows)
                out[start : start + len(rows)] = rows[:, : self.labels]

        _warp.run([partial(work, number) for number in range(len(self.stretches))])
        return out

    def _rows(self, *count: int) -> torch.Tensor:
        """Room for so many rows."""
        width, dtype, device = self.unary.shape[1], self.unary.dtype, self.unary.device
        return _warp.empty(*count, width, dtype=dtype, device=device)

    def _chunk(self, number: int) -> torch.Tensor:
        """Room for the points of a stretch that are worked on at a time."""
        first, last = self.stretches[number]
        return self._rows(min(_CHUNK, last - first))

    def _pad(self, rows: torch.Tensor, value: float) -> torch.Tensor:
        width = -(-self.labels // kernels.LANES) * kernels.LANES
        if rows.shape[1] == width:
            return rows.contiguous()
        out = _warp.empty(len(rows), width, dtype=rows.dtype, device=rows.device)
        out[:, self.labels :] = value
        _warp.copy(out[:, : self.labels], rows)
        return out

    def _logits(self, values, number):
        """The start and the logits of one chunk after another, in a stretch of points."""
        first, last = self.stretches[number]
        if not values:
            for start in range(first, last, _CHUNK):
                yield start, self.unary[start : min(start + _CHUNK, last)]
            return
        logits = self._chunk(number)
        begin = self._prepare(0, "begin", self.target[0], values[0], self.unary, logits)
        adds = [
            self._prepare(m, "add", self.target[m], values[m], logits)
            for m in range(1, len(values))
        ]
        for start in range(first, last, _CHUNK):
            size = min(_CHUNK, last - start)
            for read in (begin, *adds):
                read(start, size)
            yield start, logits[:size]

    def _prepare(self, m: int, name: str, *tensors: torch.Tensor) -> Callable[[int, int], None]:
        """A kernel over the points' corners on lattice ``m``, to be called with start and size."""
        key = (self.vertex[m].shape[1], self.unary.shape[1], self.unary.dtype)
        tools = _warp.kernels(kernels.make, *key, device=self.unary.device)
        described = [_warp.array(tensor, 1) for tensor in (self.vertex[m], *tensors)]
        return _warp.prepare(getattr(tools, name), *described, device=self.unary.device)


def _cut(count: int, parts: int) -> list[tuple[int, int]]:
    return [(count * i // parts, count * (i + 1) // parts) for i in range(parts)]


def _between_graphs(batch: torch.Tensor | None) -> list[tuple[int, int]]:
    """Stretches of points that end where graphs do; none unless graphs follow each other."""
    if batch is None or len(batch) == 0 or bool((batch[1:] < batch[:-1]).any()):
        return []
    edge = [0, *batch.unique_consecutive(return_counts=True)[1].cumsum(0).tolist()]
    parts = _cut(len(edge) - 1, min(_MOST_STRETCHES, len(edge) - 1))
    return [(edge[first], edge[last]) for first, last in parts]
