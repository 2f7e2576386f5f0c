"""Sums at the targets of edges, and edges of a neighbor table, sorted by block and tap."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels import rows
from permutogeo.kernels.module import NOT_NEGATIVE, kernel, named


@cache
def make(dtype: type) -> SimpleNamespace:
    module = named("convolve_edges", dtype)
    Row16, Row4, Row1 = rows.types(dtype)
    not_negative = NOT_NEGATIVE

    def add_row(Row):
        @wp.func
        def add_row(x: wp.array2d(dtype=Row), i: int, t: int, out: wp.array2d(dtype=Row)):
            for b in range(out.shape[1]):
                out[t, b] = out[t, b] + x[i, b]

        return add_row

    add16, add4, add1 = rows.per_block(dtype, add_row)

    @kernel(module)
    def add(
        start: int,
        first: int,
        x16: wp.array2d(dtype=Row16),  # [n, C]
        x4: wp.array2d(dtype=Row4),
        x1: wp.array2d(dtype=Row1),
        target: wp.array1d(dtype=wp.int32),  # [E], distinct within a launch
        out16: wp.array2d(dtype=Row16),  # [targets, C], in and out
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """Add rows to the targets of the edges from ``first`` on. A thread owns an edge."""
        i = (wp.tid() + start) & not_negative
        t = target[first + i] & not_negative
        add16(x16, i, t, out16)
        add4(x4, i, t, out4)
        add1(x1, i, t, out1)

    @kernel(module)
    def add_in_order(
        start: int,
        first: int,
        count: int,
        x16: wp.array2d(dtype=Row16),  # [n, C]
        x4: wp.array2d(dtype=Row4),
        x1: wp.array2d(dtype=Row1),
        target: wp.array1d(dtype=wp.int32),  # [E]
        out16: wp.array2d(dtype=Row16),  # [targets, C], in and out
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """Add rows to the targets of ``count`` edges from ``first`` on, one after the other. A
        launch has one thread, which owns all of them."""
        for j in range(count):
            i = (j + wp.tid() + start) & not_negative
            t = target[first + i] & not_negative
            add16(x16, i, t, out16)
            add4(x4, i, t, out4)
            add1(x1, i, t, out1)

    return SimpleNamespace(module=module, add=add, add_in_order=add_in_order)


@cache
def make_gpu(dtype: type, lanes: int) -> SimpleNamespace:
    module = named("convolve_edges_gpu", dtype, lanes)
    Row, load, store = rows.gpu_block(dtype, lanes)

    @kernel(module)
    def add(
        start: int,
        first: int,
        x: wp.array2d(dtype=Row),  # [n, blocks]
        target: wp.array1d(dtype=wp.int32),  # [E], distinct within a launch
        out: wp.array2d(dtype=Row),  # [targets, blocks], in and out
    ):
        """Add rows to the targets of the edges from ``first`` on. A thread owns a block of an
        edge's row."""
        j, b = wp.tid()
        i = j + start
        t = target[first + i]
        store(out, t, b, load(out, t, b) + load(x, i, b))

    return SimpleNamespace(module=module, add=add)


@cache
def make_sort() -> SimpleNamespace:
    module = named("sort_edges")

    @kernel(module)
    def count(
        start: int,
        block: int,
        table: wp.array2d(dtype=wp.int32),  # [M, K], -1 where absent
        out: wp.array2d(dtype=wp.int32),  # [blocks, K], out, zeroed by the caller
    ):
        """Count the edges of each tap. A thread owns a block of rows."""
        b = wp.tid() + start
        first = b * block
        for v in range(first, first + wp.min(block, table.shape[0] - first)):
            for k in range(table.shape[1]):
                if table[v, k] >= 0:
                    out[b, k] = out[b, k] + 1

    @kernel(module)
    def place(
        start: int,
        block: int,
        table: wp.array2d(dtype=wp.int32),  # [M, K], -1 where absent
        source_row: wp.array1d(dtype=wp.int32),  # row of the values of each source
        target_row: wp.array1d(dtype=wp.int32),  # [M], row of the output of each target
        position: wp.array2d(dtype=wp.int32),  # [blocks, K], in and out: next position
        source: wp.array1d(dtype=wp.int32),  # [E], out
        target: wp.array1d(dtype=wp.int32),  # [E], out
    ):
        """Write the edges to their sorted positions. A thread owns a block of rows."""
        b = wp.tid() + start
        first = b * block
        for v in range(first, first + wp.min(block, table.shape[0] - first)):
            for k in range(table.shape[1]):
                s = table[v, k]
                if s >= 0:
                    p = position[b, k]
                    position[b, k] = p + 1
                    source[p] = source_row[s]
                    target[p] = target_row[v]

    return SimpleNamespace(module=module, count=count, place=place)
