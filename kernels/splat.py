"""Splat: values at points to values at vertices, in two forms that are deterministic on any number
of threads.

``scatter`` adds runs of points into private copies of the values, which ``combine`` then sums: for
few vertices. ``collect`` sums over the sorted corners of each vertex: for many vertices.

On a GPU a thread per vertex would be nearly serial where many points share few vertices:
``collect_pieces`` sums pieces of long lists of corners, and ``collect`` the pieces.
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
            first: int,
            last: int,
            order: wp.array1d(dtype=wp.int32),
            weight: wp.array1d(dtype=dtype),
            r: int,
            out: wp.array2d(dtype=Row),
        ):
            for b in range(out.shape[1]):
                total = Row()
                for e in range(first, last):
                    corner = order[e] & not_negative
                    total += weight[corner] * x[corner / corners, b]
                out[r, b] = total

        return sum_edges

    add16, add4, add1 = rows.per_block(dtype, add_to_corners)
    sum16, sum4, sum1 = rows.per_block(dtype, sum_edges)
    prefetch, distance = rows.prefetch(dtype), rows.AHEAD

    @wp.func_native(rows.PREFETCH)
    def prefetch_weight(rows: wp.array1d(dtype=dtype), index: int): ...

    @kernel(module)
    def scatter(
        start: int,
        scattered: int,  # whether the vertices of consecutive points are far apart
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
            if scattered > 0:
                ahead = vertex[wp.min(i + distance, vertex.shape[0] - 1) & not_negative]
                for k in range(corners):
                    prefetch(out16, base + ahead[k])
            v = vertex[i]
            w = weight[i]
            add16(x16, i, base, v, w, out16)
            add4(x4, i, base, v, w, out4)
            add1(x1, i, base, v, w, out1)

    @kernel(module)
    def collect(
        start: int,
        scattered: int,  # whether the points of consecutive vertices are far apart
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
        if scattered > 0:
            first = begin[v] + distance * corners
            for e in range(first, wp.min(first + begin[v + 1] - begin[v], order.shape[0])):
                corner = order[e] & not_negative
                prefetch_weight(weight, corner)
                prefetch(x16, corner / corners)
        sum16(x16, begin[v], begin[v + 1], order, weight, v, out16)
        sum4(x4, begin[v], begin[v + 1], order, weight, v, out4)
        sum1(x1, begin[v], begin[v + 1], order, weight, v, out1)

    return SimpleNamespace(module=module, scatter=scatter, collect=collect)


@cache
def make_gpu(corners: int, dtype: type, lanes: int) -> SimpleNamespace:
    module = named("splat_gpu", corners, dtype, lanes)
    not_negative = NOT_NEGATIVE
    Row, load, store = rows.gpu_block(dtype, lanes)

    @wp.func
    def sum_edges(
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
            total += weight[corner] * load(x, corner / corners, b)
        return total

    @kernel(module)
    def collect_pieces(
        start: int,
        piece: wp.array1d(dtype=wp.int32),  # [M + 1], first piece of each vertex
        length: wp.array1d(dtype=wp.int32),  # [M], corners in a piece of each vertex
        begin: wp.array1d(dtype=wp.int32),  # [M + 1]
        order: wp.array1d(dtype=wp.int32),  # point * corners + corner, sorted by vertex
        weight: wp.array1d(dtype=dtype),  # [N * corners]
        x: wp.array2d(dtype=Row),  # [N, blocks]
        partial: wp.array2d(dtype=Row),  # [P, blocks], out
    ):
        """Weighted sum over a piece of the corners at a vertex. A thread owns a block of a piece's
        row.

        There are at most ``P`` pieces; the host does not know how many.
        """
        t, b = wp.tid()
        p = t + start
        low = int(0)
        high = piece.shape[0] - 1
        if p < piece[high]:
            while high - low > 1:  # the vertex v with piece[v] <= p < piece[v + 1]
                middle = low + (high - low) / 2
                if piece[middle] <= p:
                    low = middle
                else:
                    high = middle
            first = begin[low] + (p - piece[low]) * length[low]
            last = first + wp.min(length[low], begin[low + 1] - first)
            store(partial, p, b, sum_edges(x, b, first, last, order, weight))

    @kernel(module)
    def collect(
        start: int,
        piece: wp.array1d(dtype=wp.int32),  # [M + 1], first piece of each vertex
        partial: wp.array2d(dtype=Row),  # [P, blocks]
        begin: wp.array1d(dtype=wp.int32),  # [M + 1]
        order: wp.array1d(dtype=wp.int32),  # point * corners + corner, sorted by vertex
        weight: wp.array1d(dtype=dtype),  # [N * corners]
        x: wp.array2d(dtype=Row),  # [N, blocks]
        out: wp.array2d(dtype=Row),  # [M, blocks], out
    ):
        """Sum of the pieces of a vertex in their order, or over its points where it has no pieces.
        A thread owns a block of a vertex's row."""
        t, b = wp.tid()
        v = t + start
        first = piece[v]
        last = piece[v + 1]
        total = Row()
        if first < last:
            for p in range(first, last):
                total += load(partial, p, b)
        else:
            total = sum_edges(x, b, begin[v], begin[v + 1], order, weight)
        store(out, v, b, total)

    return SimpleNamespace(module=module, collect_pieces=collect_pieces, collect=collect)


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
