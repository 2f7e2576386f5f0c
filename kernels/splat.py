"""Splat: values at points to values at vertices, in two forms that are deterministic on any number
of threads.

``scatter`` adds runs of points into private copies of the values, which ``combine`` then sums: for
few vertices. ``collect`` sums over the sorted corners of each vertex: for many vertices.
"""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels import rows
from permutogeo.kernels.module import NOT_NEGATIVE, kernel, named


@cache
def make(corners: int, dtype: type) -> SimpleNamespace:
    module = named("splat", corners, dtype)
    not_negative = NOT_NEGATIVE
    Row16, Row4, Row1 = rows.types(dtype)
    Weight = wp.types.vector(length=corners, dtype=dtype)
    Vertex = wp.types.vector(length=corners, dtype=wp.int32)

    def add_to_corners(Row):
        @wp.func
        def add_to_corners(
            x: wp.array2d(dtype=Row),
            i: int,
            base: int,
            v: Vertex,
            w: Weight,
            out: wp.array2d(dtype=Row),
        ):
            for b in range(x.shape[1]):
                row = x[i, b]
                for k in range(corners):
                    r = (base + v[k]) & not_negative
                    out[r, b] = out[r, b] + w[k] * row

        return add_to_corners

    def sum_edges(Row):
        @wp.func
        def sum_edges(
            x: wp.array2d(dtype=Row),
            v: int,
            begin: wp.array1d(dtype=wp.int32),
            order: wp.array1d(dtype=wp.int32),
            weight: wp.array1d(dtype=dtype),
            out: wp.array2d(dtype=Row),
        ):
            for b in range(out.shape[1]):
                total = Row()
                for e in range(begin[v], begin[v + 1]):
                    corner = order[e] & not_negative
                    total += weight[corner] * x[corner / corners, b]
                out[v, b] = total

        return sum_edges

    add16, add4, add1 = rows.per_block(dtype, add_to_corners)
    sum16, sum4, sum1 = rows.per_block(dtype, sum_edges)

    @kernel(module)
    def scatter(
        start: int,
        runs: wp.array2d(dtype=wp.int32),  # [R, 3]: row of vertex 0, first and last point
        vertex: wp.array1d(dtype=Vertex),  # [N]
        weight: wp.array1d(dtype=Weight),  # [N]
        x16: wp.array2d(dtype=Row16),  # [N, C]
        x4: wp.array2d(dtype=Row4),
        x1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [rows, C], out, zeroed by the caller
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """Add a run of points into a copy of the values. A thread owns a run.

        Runs into one copy belong to different graphs, which share no vertex.
        """
        t = wp.tid() + start
        base = runs[t, 0]
        for i in range(runs[t, 1], runs[t, 2]):
            v = vertex[i]
            w = weight[i]
            add16(x16, i, base, v, w, out16)
            add4(x4, i, base, v, w, out4)
            add1(x1, i, base, v, w, out1)

    @kernel(module)
    def collect(
        start: int,
        begin: wp.array1d(dtype=wp.int32),  # [M + 1]
        order: wp.array1d(dtype=wp.int32),  # point * corners + corner, sorted by vertex
        weight: wp.array1d(dtype=dtype),  # [N * corners]
        x16: wp.array2d(dtype=Row16),  # [N, C]
        x4: wp.array2d(dtype=Row4),
        x1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [M, C], out
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """Weighted sum over the points at a vertex. A thread owns a vertex."""
        v = wp.tid() + start
        sum16(x16, v, begin, order, weight, out16)
        sum4(x4, v, begin, order, weight, out4)
        sum1(x1, v, begin, order, weight, out1)

    return SimpleNamespace(module=module, scatter=scatter, collect=collect)


@cache
def make_combine(dtype: type) -> SimpleNamespace:
    module = named("splat_combine", dtype)

    @kernel(module)
    def combine(
        start: int,
        copies: wp.array2d(dtype=dtype),  # [copies, n]
        out: wp.array1d(dtype=dtype),  # [n], out
    ):
        """Sum of the copies, in their order. A thread owns an element."""
        i = wp.tid() + start
        total = copies[0, i]
        for c in range(1, copies.shape[0]):
            total += copies[c, i]
        out[i] = total

    return SimpleNamespace(module=module, combine=combine)
