"""The incidence sorted by vertex: a counting sort whose result does not depend on the runs."""

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
        out: wp.array2d(dtype=wp.int32),  # [runs, M], out, zero before
    ):
        """How often each vertex occurs in a run of corners; a thread owns a run."""
        t = wp.tid() + start
        for c in range(t * run, wp.min((t + 1) * run, vertex.shape[0])):
            v = vertex[c]
            out[t, v] = out[t, v] + 1

    @kernel(module)
    def place(
        start: int,
        run: int,
        vertex: wp.array1d(dtype=wp.int32),  # [N * corners]
        position: wp.array2d(dtype=wp.int32),  # [runs, M], in and out: next free place
        order: wp.array1d(dtype=wp.int32),  # out
    ):
        """Put the corners of a run where their vertex's entries go; a thread owns a run."""
        t = wp.tid() + start
        for c in range(t * run, wp.min((t + 1) * run, vertex.shape[0])):
            v = vertex[c]
            p = position[t, v]
            position[t, v] = p + 1
            order[p] = c

    return SimpleNamespace(module=module, count=count, place=place)
