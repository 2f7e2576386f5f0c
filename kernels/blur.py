"""One axis of the separable blur."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels import rows
from permutogeo.kernels.module import kernel, named


@cache
def make(dtype: type, radius: int) -> SimpleNamespace:
    module = named("blur", dtype, radius)
    Row16, Row4, Row1 = rows.types(dtype)
    sides = 2 * radius
    Column = wp.types.vector(length=max(1, sides), dtype=wp.int32)
    Tap = wp.types.vector(length=1 + sides, dtype=dtype)

    def line_sum(Row):
        @wp.func
        def line_sum(
            values: wp.array2d(dtype=Row),
            b: int,
            v: int,
            neighbors: wp.array2d(dtype=wp.int32),
            column: Column,
            tap: Tap,
        ):
            total = tap[0] * values[v, b]
            for j in range(sides):
                total += tap[1 + j] * values[neighbors[v, column[j]], b]
            return total

        return line_sum

    sum16, sum4, sum1 = rows.per_block(dtype, line_sum)

    @kernel(module)
    def axis(
        start: int,
        neighbors: wp.array2d(dtype=wp.int32),  # [M, K], -1 (the last row) where absent
        column: Column,  # which neighbors lie on this axis
        tap: Tap,  # their weights, after the centre's
        values16: wp.array2d(dtype=Row16),  # [M + 1, C], the last row zero
        values4: wp.array2d(dtype=Row4),
        values1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [M + 1, C], out but for the last row
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """Weighted sum along one lattice axis; a thread owns a vertex."""
        v = wp.tid() + start
        for b in range(out16.shape[1]):
            out16[v, b] = sum16(values16, b, v, neighbors, column, tap)
        for b in range(out4.shape[1]):
            out4[v, b] = sum4(values4, b, v, neighbors, column, tap)
        for b in range(out1.shape[1]):
            out1[v, b] = sum1(values1, b, v, neighbors, column, tap)

    return SimpleNamespace(module=module, Column=Column, Tap=Tap, axis=axis)


@cache
def make_wide(dtype: type, radius: int, width: int) -> SimpleNamespace:
    module = named("wide_blur", dtype, radius, width)
    Row = wp.types.vector(length=width, dtype=dtype)
    sides = 2 * radius
    Column = wp.types.vector(length=max(1, sides), dtype=wp.int32)
    Tap = wp.types.vector(length=1 + sides, dtype=dtype)

    @kernel(module)
    def axis(
        start: int,
        neighbors: wp.array2d(dtype=wp.int32),  # [M, K], -1 (the last row) where absent
        column: Column,  # which neighbors lie on this axis
        tap: Tap,  # their weights, after the centre's
        values: wp.array1d(dtype=Row),  # [M + 1], the last row zero
        out: wp.array1d(dtype=Row),  # [M + 1], out but for the last row
    ):
        """The same for rows of one length, several times as fast; a thread owns a vertex."""
        v = wp.tid() + start
        total = tap[0] * values[v]
        for j in range(sides):
            total += tap[1 + j] * values[neighbors[v, column[j]]]
        out[v] = total

    return SimpleNamespace(module=module, Column=Column, Tap=Tap, axis=axis)
