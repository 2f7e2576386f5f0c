"""Fused slice → softmax → splat of mean-field inference, over cache-sized chunks of points.

The filters and the compatibility transform at the vertices are the caller's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch

from permutogeo.kernels import mean_field as kernels
from permutogeo.runtime import bridge, memory, threads

# Points per chunk: marginals fit into the cache, and launch overhead is negligible.
_CHUNK = 16384
# Corners per vertex that pay for a private copy of the sums.
_CORNERS_PER_COPY = 16
_MOST_COPIES = 8
# Runs of whole graphs, which share no vertex and need no copies.
_MOST_RUNS = 16
# Logit of the padding labels.
_PADDING_LOGIT = -math.inf


class FusedMeanField:
    """Point-wise part of mean-field inference on the CPU, for kernels on several lattices.

    Args:
        unary: Logits of each point, ``[N, L]`` float32.
        vertex: Vertices of each point on each lattice, ``[N, k]`` int32, none absent.
        source: Weights of the splat, ``[N, k]``.
        target: Weights of the slice, ``[N, k]``.
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
        self.unary = self._pad(unary.detach(), _PADDING_LOGIT)
        self.vertex = [corners.contiguous() for corners in vertex]
        self.source = [weight.detach().contiguous() for weight in source]
        self.target = [weight.detach().contiguous() for weight in target]
        self.num_vertices = num_vertices
        # Chosen by sizes alone, so that results do not depend on the number of threads.
        self.runs = _runs_of_graphs(batch)
        self.copies = 1
        if len(self.runs) < 2:
            shared = min(
                self.count * corners.shape[1] // max(1, size)
                for corners, size in zip(vertex, num_vertices, strict=True)
            )
            many = max(2, min(_MOST_COPIES, shared // _CORNERS_PER_COPY))
            self.copies = many if self.count > _CHUNK else 1
            self.runs = _cut(self.count, self.copies)
        # Reused by every step: page faults of new memory would cost as much as the work.
        self._totals = [self._rows(self.copies, size) for size in num_vertices]

    def step(
        self, values: Sequence[torch.Tensor], filters: Sequence[Callable]
    ) -> list[torch.Tensor]:
        """Splat the marginals of ``unary + sum of slices`` and filter them at the vertices.

        Args:
            values: Result of the previous step; empty for the first.
            filters: Filter at the vertices of each lattice, from ``[M, W]`` (the labels and
                columns of zeros as padding) to ``[M, W]`` or to the labels alone.
        """
        sums = self._splat(values)
        out: list = [None] * len(sums)

        def work(m: int) -> None:
            total, *others = sums[m]
            for other in others:
                total += other
            out[m] = self._pad(filters[m](total), 0.0)

        # One thread per lattice: a lattice is too small to be split.
        threads.run_without_grad([partial(work, m) for m in range(len(sums))])
        return out

    def _splat(self, values: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the splatted marginals of each lattice, ``[copies, M, W]``."""
        if self.copies == 1:  # shared by all runs
            self._clear(0)
        jobs = [partial(self._splat_run, values, number) for number in range(len(self.runs))]
        threads.run_without_grad(jobs)
        return self._totals

    def _splat_run(self, values: Sequence[torch.Tensor], number: int) -> None:
        """Add the marginals of a run of points to its copy of the sums."""
        copy = number % self.copies
        if self.copies > 1:
            self._clear(copy)
        marginals = self._chunk(number)
        adds = [
            self._prepare(m, "splat", self.source[m], marginals, total[copy])
            for m, total in enumerate(self._totals)
        ]
        for start, logits in self._logits(values, number):
            torch.softmax(logits, 1, out=marginals[: len(logits)])
            for add in adds:
                add(start, len(logits))

    def _clear(self, copy: int) -> None:
        for total in self._totals:
            total[copy].zero_()

    def marginals(self, values: Sequence[torch.Tensor], log: bool = True) -> torch.Tensor:
        """Return the marginals of ``unary + sum of slices``, or their logarithms, ``[N, L]``."""
        normalize = torch.log_softmax if log else torch.softmax
        shape = (self.count, self.labels)
        out = memory.empty(*shape, dtype=self.unary.dtype, device=self.unary.device)

        def work(number: int) -> None:
            marginals = self._chunk(number)
            for start, logits in self._logits(values, number):
                rows = marginals[: len(logits)]
                normalize(logits, 1, out=rows)
                out[start : start + len(rows)] = rows[:, : self.labels]

        threads.run_without_grad([partial(work, number) for number in range(len(self.runs))])
        return out

    def _rows(self, *count: int) -> torch.Tensor:
        """Allocate rows of padded labels."""
        width, dtype, device = self.unary.shape[1], self.unary.dtype, self.unary.device
        return memory.empty(*count, width, dtype=dtype, device=device)

    def _chunk(self, number: int) -> torch.Tensor:
        """Allocate a chunk of rows for a run of points."""
        first, last = self.runs[number]
        return self._rows(min(_CHUNK, last - first))

    def _pad(self, rows: torch.Tensor, value: float) -> torch.Tensor:
        width = -(-self.labels // kernels.LANES) * kernels.LANES
        if rows.shape[1] == width:
            return rows.contiguous()
        out = memory.empty(len(rows), width, dtype=rows.dtype, device=rows.device)
        out[:, self.labels :] = value
        memory.copy(out[:, : self.labels], rows)
        return out

    def _logits(self, values, number):
        """Yield the first point and the logits of each chunk of a run."""
        first, last = self.runs[number]
        if not values:
            for start in range(first, last, _CHUNK):
                yield start, self.unary[start : min(start + _CHUNK, last)]
            return
        logits = self._chunk(number)
        first_slice = self._prepare(0, "slice_first", self.target[0], values[0], self.unary, logits)
        adds = [
            self._prepare(m, "slice_add", self.target[m], values[m], logits)
            for m in range(1, len(values))
        ]
        for start in range(first, last, _CHUNK):
            size = min(_CHUNK, last - start)
            for read in (first_slice, *adds):
                read(start, size)
            yield start, logits[:size]

    def _prepare(self, m: int, name: str, *tensors: torch.Tensor) -> Callable[[int, int], None]:
        """Return a launch of a kernel on lattice ``m``, to be called with first point and count."""
        key = (self.vertex[m].shape[1], self.unary.shape[1], self.unary.dtype)
        tools = bridge.load_kernels(kernels.make, *key, device=self.unary.device)
        described = [bridge.array(tensor, 1) for tensor in (self.vertex[m], *tensors)]
        return bridge.prepare(getattr(tools, name), *described, device=self.unary.device)


def _cut(count: int, parts: int) -> list[tuple[int, int]]:
    return [(count * i // parts, count * (i + 1) // parts) for i in range(parts)]


def _runs_of_graphs(batch: torch.Tensor | None) -> list[tuple[int, int]]:
    """Return runs of whole graphs; none unless the points are sorted by graph."""
    if batch is None or len(batch) == 0 or bool((batch[1:] < batch[:-1]).any()):
        return []
    edge = [0, *batch.unique_consecutive(return_counts=True)[1].cumsum(0).tolist()]
    parts = _cut(len(edge) - 1, min(_MOST_RUNS, len(edge) - 1))
    return [(edge[first], edge[last]) for first, last in parts]
