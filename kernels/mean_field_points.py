"""Corners of the points of mean field, and the places that their runs splat into."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels.module import NOT_NEGATIVE, kernel, named


@cache
def make_slots(corners: int) -> SimpleNamespace:
    """Return the kernels for ``corners`` per point on all lattices."""
    module = named("mean_field_slots", corners)
    not_negative = NOT_NEGATIVE
    Vertex = wp.types.vector(length=corners, dtype=wp.int32)

    @kernel(module)
    def touch(
        start: int,
        runs: wp.array2d(dtype=wp.int32),  # [R, 2]: first and last point
        vertex: wp.array1d(dtype=Vertex),  # [N]
        used: wp.array2d(dtype=wp.int32),  # [R, rows], out, zeroed by the caller
        size: wp.array1d(dtype=wp.int32),  # [R], out
    ):
        """Mark the vertices of a run with 1 and count them. A thread owns a run."""
        t = (wp.tid() + start) & not_negative
        total = int(0)
        for i in range(runs[t, 0], runs[t, 1]):
            v = vertex[i & not_negative]
            for k in range(corners):
                total += 1 - used[t, v[k] & not_negative]
                used[t, v[k] & not_negative] = 1
        size[t] = total

    @kernel(module)
    def number(
        start: int,
        runs: wp.array2d(dtype=wp.int32),  # [R, 2]: first and last point
        vertex: wp.array1d(dtype=Vertex),  # [N]
        first: wp.array1d(dtype=wp.int32),  # [R], first slot of each run
        used: wp.array2d(dtype=wp.int32),  # [R, rows], in and out: 1 + slot of each vertex, or 0
        slot: wp.array1d(dtype=Vertex),  # [N], out
    ):
        """Number the slots of a run in the order of its vertices, apart from other runs, since
        threads that write to the same cache lines wait for each other. A thread owns a run."""
        t = (wp.tid() + start) & not_negative
        after = first[t]
        for r in range(used.shape[1]):
            if used[t, r & not_negative] > 0:
                after += 1
                used[t, r & not_negative] = after
        for i in range(runs[t, 0], runs[t, 1]):
            corner = vertex[i & not_negative]
            for k in range(corners):
                corner[k] = used[t, corner[k] & not_negative] - 1
            slot[i & not_negative] = corner

    @kernel(module)
    def count(
        start: int,
        used: wp.array2d(dtype=wp.int32),  # [R, rows], positive where a run has the vertex
        out: wp.array1d(dtype=wp.int32),  # [rows], out
    ):
        """Number of runs at a vertex. A thread owns a vertex."""
        v = (wp.tid() + start) & not_negative
        total = int(0)
        for t in range(used.shape[0]):
            total += wp.min(used[t & not_negative, v], 1)
        out[v] = total

    @kernel(module)
    def collect(
        start: int,
        used: wp.array2d(dtype=wp.int32),  # [R, rows]: 1 + slot of a vertex in each run, or 0
        begin: wp.array1d(dtype=wp.int32),  # [rows + 1]
        slots: wp.array1d(dtype=wp.int32),  # [S], out: slots of each vertex, in the order of runs
    ):
        """Slots of each vertex. A thread owns a vertex."""
        v = (wp.tid() + start) & not_negative
        after = begin[v]
        for t in range(used.shape[0]):
            slot = used[t & not_negative, v]
            if slot > 0:
                slots[after & not_negative] = slot - 1
                after += 1

    return SimpleNamespace(module=module, touch=touch, number=number, count=count, collect=collect)


@cache
def make_corners(corners: int) -> SimpleNamespace:
    """Return the kernels that join the corners on several lattices, for one with ``corners``."""
    module = named("mean_field_corners", corners)
    not_negative = NOT_NEGATIVE
    Weight = wp.types.vector(length=corners, dtype=wp.float32)
    Vertex = wp.types.vector(length=corners, dtype=wp.int32)
    ones = Vertex(*[1] * corners)

    @kernel(module)
    def vertices(
        start: int,
        row: int,  # row of the first vertex
        given: wp.array1d(dtype=Vertex),  # [N]
        out: wp.array1d(dtype=Vertex),  # [N], out
    ):
        """Rows of the vertices of the points. A thread owns a point."""
        i = (wp.tid() + start) & not_negative
        out[i] = given[i] + row * ones

    @kernel(module)
    def weights(
        start: int,
        given: wp.array1d(dtype=Weight),  # [N]
        out: wp.array1d(dtype=Weight),  # [N], out
    ):
        """Copy weights. A thread owns a point."""
        i = (wp.tid() + start) & not_negative
        out[i] = given[i]

    return SimpleNamespace(module=module, vertices=vertices, weights=weights)
