"""Separable blur along one lattice axis."""

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

    def blur_row(Row):
        @wp.func
        def blur_row(
            values: wp.array2d(dtype=Row),
            v: int,
            neighbors: wp.array2d(dtype=wp.int32),
            column: Column,
            tap: Tap,
            out: wp.array2d(dtype=Row),
        ):
            for b in range(out.shape[1]):
                total = tap[0] * values[v, b]
                for j in range(sides):
                    total += tap[1 + j] * values[neighbors[v, column[j]], b]
                out[v, b] = total

        return blur_row

    blur16, blur4, blur1 = rows.per_block(dtype, blur_row)

    @kernel(module)
    def axis(
        start: int,
        neighbors: wp.array2d(dtype=wp.int32),  # [M, K], -1 (the last row) where absent
        column: Column,  # columns of the neighbors on this axis
        tap: Tap,  # weight of the center, then of these neighbors
        values16: wp.array2d(dtype=Row16),  # [M + 1, C], the last row zero
        values4: wp.array2d(dtype=Row4),
        values1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [M + 1, C], out, the last row is not written
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """Weighted sum along one lattice axis. A thread owns a vertex."""
        v = wp.tid() + start
        blur16(values16, v, neighbors, column, tap, out16)
        blur4(values4, v, neighbors, column, tap, out4)
        blur1(values1, v, neighbors, column, tap, out1)

    return SimpleNamespace(module=module, Column=Column, Tap=Tap, axis=axis)


@cache
def make_wide(dtype: type, radius: int, width: int) -> SimpleNamespace:
    module = named("blur_wide", dtype, radius, width)
    Row = wp.types.vector(length=width, dtype=dtype)
    sides = 2 * radius
    Column = wp.types.vector(length=max(1, sides), dtype=wp.int32)
    Tap = wp.types.vector(length=1 + sides, dtype=dtype)

    @kernel(module)
    def axis(
        start: int,
        neighbors: wp.array2d(dtype=wp.int32),  # [M, K], -1 (the last row) where absent
        column: Column,  # columns of the neighbors on this axis
        tap: Tap,  # weight of the center, then of these neighbors
        values: wp.array1d(dtype=Row),  # [M + 1], the last row zero
        out: wp.array1d(dtype=Row),  # [M + 1], out, the last row is not written
    ):
        """Weighted sum along one lattice axis for rows of a fixed width, several times as fast. A
        thread owns a vertex."""
        v = wp.tid() + start
        total = tap[0] * values[v]
        for j in range(sides):
            total += tap[1 + j] * values[neighbors[v, column[j]]]
        out[v] = total

    return SimpleNamespace(module=module, Column=Column, Tap=Tap, axis=axis)
