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

    @kernel(module)
    def sort(
        start: int,
        vertex: wp.array1d(dtype=wp.int32),  # [N * corners]
        begin: wp.array1d(dtype=wp.int32),  # [M + 1], out, zeroed by the caller
        order: wp.array1d(dtype=wp.int32),  # [N * corners], out
    ):
        """Write the sorted corners and the first of each vertex. One thread does everything."""
        corners = vertex.shape[0]
        vertices = begin.shape[0] - 1
        for c in range(corners):
            v = vertex[c]
            begin[v] = begin[v] + 1
        total = int(0)
        for v in range(vertices):
            total += begin[v]
            begin[v] = total  # the end of the vertex, moved to its beginning below
        begin[vertices] = total
        for i in range(corners):
            c = corners - 1 - i
            p = begin[vertex[c]] - 1
            begin[vertex[c]] = p
            order[p] = c

    return SimpleNamespace(module=module, count=count, place=place, sort=sort)
