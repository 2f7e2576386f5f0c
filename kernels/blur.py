"""Separable blur along one lattice axis."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels import rows
from permutogeo.kernels.module import NOT_NEGATIVE, kernel, named


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
def make_blocks(dtype: type, radius: int, lanes: int) -> SimpleNamespace:
    module = named("blur_blocks", dtype, radius, lanes)
    not_negative = NOT_NEGATIVE
    Row = wp.types.vector(length=lanes, dtype=dtype)
    sides = 2 * radius
    Column = wp.types.vector(length=max(1, sides), dtype=wp.int32)
    Tap = wp.types.vector(length=1 + sides, dtype=dtype)

    @wp.func
    def blur_row(
        v: int,
        blocks: int,
        neighbors: wp.array2d(dtype=wp.int32),
        column: Column,
        tap: Tap,
        values: wp.array1d(dtype=Row),
        out: wp.array1d(dtype=Row),
    ):
        neighbor = Column()
        for j in range(sides):
            r = neighbors[v & not_negative, column[j] & not_negative]
            neighbor[j] = wp.where(r < 0, neighbors.shape[0], r) * blocks
        for b in range(blocks):
            total = tap[0] * values[(v * blocks + b) & not_negative]
            for j in range(sides):
                total += tap[1 + j] * values[(neighbor[j] + b) & not_negative]
            out[(v * blocks + b) & not_negative] = total

    @kernel(module)
    def axis(
        start: int,
        blocks: int,  # blocks of a row
        neighbors: wp.array2d(dtype=wp.int32),  # [M, K], -1 (row M) where absent
        column: Column,  # columns of the neighbors on this axis
        tap: Tap,  # weight of the center, then of these neighbors
        values: wp.array1d(dtype=Row),  # [(M + 1) x blocks], the last row zero
        out: wp.array1d(dtype=Row),  # [(M + 1) x blocks], out, the last row is not written
    ):
        """Weighted sum along one lattice axis for rows of whole blocks, several times as fast. A
        thread owns a vertex."""
        blur_row(wp.tid() + start, blocks, neighbors, column, tap, values, out)

    return SimpleNamespace(module=module, Column=Column, Tap=Tap, axis=axis)


@cache
def make_gpu(dtype: type, radius: int, lanes: int) -> SimpleNamespace:
    module = named("blur_gpu", dtype, radius, lanes)
    Row, load, store = rows.gpu_block(dtype, lanes)
    sides = 2 * radius
    Column = wp.types.vector(length=max(1, sides), dtype=wp.int32)
    Tap = wp.types.vector(length=1 + sides, dtype=dtype)

    @kernel(module)
    def axis(
        start: int,
        neighbors: wp.array2d(dtype=wp.int32),  # [M, K], -1 (row M) where absent
        column: Column,  # columns of the neighbors on this axis
        tap: Tap,  # weight of the center, then of these neighbors
        values: wp.array2d(dtype=Row),  # [M + 1, blocks], the last row zero
        out: wp.array2d(dtype=Row),  # [M + 1, blocks], out, the last row is not written
    ):
        """Weighted sum along one lattice axis. A thread owns a block of a vertex's row."""
        t, b = wp.tid()
        v = t + start
        total = tap[0] * load(values, v, b)
        for j in range(sides):
            r = neighbors[v, column[j]]
            total += tap[1 + j] * load(values, wp.where(r < 0, neighbors.shape[0], r), b)
        store(out, v, b, total)

    return SimpleNamespace(module=module, Column=Column, Tap=Tap, axis=axis)
