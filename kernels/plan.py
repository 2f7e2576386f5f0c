"""Counting sort of the corners by vertex; the result does not depend on the number of runs."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels.module import kernel, named


@cache
def make() -> SimpleNamespace:
    module = named("plan")

    @kernel(module)
    def count(
        start: int,
        run: int,
        vertex: wp.array1d(dtype=wp.int32),  # [N * corners]
        out: wp.array2d(dtype=wp.int32),  # [runs, M], out, zeroed by the caller
    ):
        """Count the corners of each vertex in a run. A thread owns a run."""
        t = wp.tid() + start
        first = t * run
        for c in range(first, first + wp.min(run, vertex.shape[0] - first)):
            v = vertex[c]
            out[t, v] = out[t, v] + 1

    @kernel(module)
    def place(
        start: int,
        run: int,
        vertex: wp.array1d(dtype=wp.int32),  # [N * corners]
        position: wp.array2d(dtype=wp.int32),  # [runs, M], in and out: next position
        order: wp.array1d(dtype=wp.int32),  # out
    ):
        """Write the corners of a run to their sorted positions. A thread owns a run."""
        t = wp.tid() + start
        first = t * run
        for c in range(first, first + wp.min(run, vertex.shape[0] - first)):
            v = vertex[c]
            p = position[t, v]
            position[t, v] = p + 1
            order[p] = c

    return SimpleNamespace(module=module, count=count, place=place)
