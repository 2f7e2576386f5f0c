"""Values at points to values at vertices, in two forms whose bits do not depend on threads.

``scatter`` adds runs of points into private copies of the values, which ``combine`` sums in order:
for few vertices. ``collect`` sums the points of each vertex: for many, once the incidence is
transposed.
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

    def corner_add(Row):
        @wp.func
        def corner_add(x: Row, base: int, b: int, v: Vertex, w: Weight, out: wp.array2d(dtype=Row)):
            for k in range(corners):
                r = (base + v[k]) & not_negative
                out[r, b] = out[r, b] + w[k] * x

        return corner_add

    def edge_sum(Row):
        @wp.func
        def edge_sum(
            x: wp.array2d(dtype=Row),
            b: int,
            first: int,
            last: int,
            order: wp.array1d(dtype=wp.int32),
            weight: wp.array1d(dtype=dtype),
        ):
            total = Row()
            for e in range(first, last):
                corner = order[e] & not_negative
                total += weight[corner] * x[corner / corners, b]
            return total

        return edge_sum

    add16, add4, add1 = rows.per_block(dtype, corner_add)
    sum16, sum4, sum1 = rows.per_block(dtype, edge_sum)

    @kernel(module)
    def scatter(
        start: int,
        runs: wp.array2d(dtype=wp.int32),  # [R, 3]: copy, first and last point
        vertices: int,
        vertex: wp.array1d(dtype=Vertex),  # [N]
        weight: wp.array1d(dtype=Weight),  # [N]
        x16: wp.array2d(dtype=Row16),  # [N, C]
        x4: wp.array2d(dtype=Row4),
        x1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [copies * M, C], out, zero before
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """Add a run of points into a copy of the values; a thread owns a run.

        Runs of one copy belong to different graphs, which share no vertex.
        """
        t = wp.tid() + start
        base = runs[t, 0] * vertices
        for i in range(runs[t, 1], runs[t, 2]):
            v = vertex[i]
            w = weight[i]
            for b in range(x16.shape[1]):
                add16(x16[i, b], base, b, v, w, out16)
            for b in range(x4.shape[1]):
                add4(x4[i, b], base, b, v, w, out4)
            for b in range(x1.shape[1]):
                add1(x1[i, b], base, b, v, w, out1)

    @kernel(module)
    def collect(
        start: int,
        begin: wp.array1d(dtype=wp.int32),  # [M + 1]
        order: wp.array1d(dtype=wp.int32),  # corners (point * corners + corner) by vertex
        weight: wp.array1d(dtype=dtype),  # [N * corners]
        x16: wp.array2d(dtype=Row16),  # [N, C]
        x4: wp.array2d(dtype=Row4),
        x1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [M, C], out
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """Weighted sum over the points at a vertex; a thread owns a vertex."""
        v = wp.tid() + start
        first = begin[v]
        last = begin[v + 1]
        for b in range(out16.shape[1]):
            out16[v, b] = sum16(x16, b, first, last, order, weight)
        for b in range(out4.shape[1]):
            out4[v, b] = sum4(x4, b, first, last, order, weight)
        for b in range(out1.shape[1]):
            out1[v, b] = sum1(x1, b, first, last, order, weight)

    return SimpleNamespace(module=module, scatter=scatter, collect=collect)


@cache
def make_combine(dtype: type) -> SimpleNamespace:
    module = named("combine", dtype)

    @kernel(module)
    def combine(
        start: int,
        copies: wp.array2d(dtype=dtype),  # [copies, n]
        out: wp.array1d(dtype=dtype),  # [n], out
    ):
        """Sum of the copies in their order; a thread owns a number."""
        i = wp.tid() + start
        total = copies[0, i]
        for c in range(1, copies.shape[0]):
            total += copies[c, i]
        out[i] = total

    return SimpleNamespace(module=module, combine=combine)
