"""Separable blur of the sums of mean field, in one pass over the vertices of a lattice."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels.module import kernel, named
from permutogeo.kernels.rows import block_counter
from permutogeo.kernels.unstrided import reader, writer

# Vertices between the prefetch of a row and its use.
_AHEAD = 24
_PREFETCH = """
#ifndef __CUDA_ARCH__
    __builtin_prefetch(rows.data + index);
#endif
"""


@cache
def make(lanes: int, many: bool, radius: int) -> SimpleNamespace:
    """Return the kernels for blocks of ``lanes`` labels and taps of this radius, in float32."""
    module = named("mean_field_blur", lanes, many, radius)
    Row = wp.float32 if lanes == 1 else wp.types.vector(length=lanes, dtype=wp.float32)
    Column = wp.types.vector(length=2 * radius, dtype=wp.int32)
    Tap = wp.types.vector(length=1 + radius, dtype=wp.float32)
    get, put, integer = reader(Row), writer(Row), reader(wp.int32)
    distance, sides = _AHEAD, 2 * radius
    zero = wp.float32(0.0) if lanes == 1 else Row(*[0.0] * lanes)
    column_at, blocks_of = reader(Column), block_counter(many)

    @wp.func_native(_PREFETCH)
    def prefetch(rows: wp.array1d(dtype=Row), index: int): ...

    @wp.func
    def move_rows(
        first: int,
        last: int,
        blocks: int,
        slot: wp.array1d(dtype=wp.int32),
        sums: wp.array1d(dtype=Row),
        mask: int,
        out: wp.array1d(dtype=Row),
    ):
        v = int(first)
        while v < last:
            prefetch(sums, integer(slot, wp.min(v + distance, last - 1)) * blocks)
            row = integer(slot, v) * blocks
            b = int(0)
            while b < blocks:
                put(out, (v & mask) * blocks + b, get(sums, row + b))
                put(sums, row + b, zero)
                b += 1
            v += 1

    @wp.func
    def blur_rows(
        first: int,
        last: int,
        blocks: int,
        neighbors: wp.array1d(dtype=wp.int32),
        column: Column,
        tap: Tap,
        begin: int,
        mask: int,
        values: wp.array1d(dtype=Row),
        scattered: int,
        row: wp.array1d(dtype=wp.int32),
        out_begin: int,
        out_mask: int,
        out: wp.array1d(dtype=Row),
    ):
        v = int(first)
        while v < last:
            there = Column()
            for j in range(sides):
                r = integer(neighbors, column[j] + v)
                there[j] = begin + wp.where(r < 0, mask + 1, r & mask)
            to = out_begin + (v & out_mask)
            if scattered > 0:
                to = integer(row, v)
            b = int(0)
            while b < blocks:
                total = tap[0] * get(values, (begin + (v & mask)) * blocks + b)
                for j in range(radius):
                    near = get(values, there[2 * j] * blocks + b)
                    far = get(values, there[2 * j + 1] * blocks + b)
                    total += tap[1 + j] * (near + far)
                put(out, to * blocks + b, total)
                b += 1
            v += 1

    @kernel(module)
    def blur(
        start: int,
        row_blocks: int,  # blocks of a row
        size: int,  # vertices of a window
        neighbors: wp.array1d(dtype=wp.int32),  # [K x M], by column, -1 where absent
        column: wp.array1d(dtype=Column),  # [A]: begins of the columns of each axis
        lag: wp.array1d(dtype=wp.int32),  # [A + 1]: vertices that an axis stays behind
        begin: wp.array1d(dtype=wp.int32),  # [A]: first row of the ring that an axis reads
        mask: wp.array1d(dtype=wp.int32),  # [A]: rows of the ring less one, a power of two
        tap: Tap,  # weight of the center, then of the neighbors on each side
        last_tap: Tap,  # the same on the last axis
        slot: wp.array1d(dtype=wp.int32),  # [M]: row of the sums of each vertex
        row: wp.array1d(dtype=wp.int32),  # [M]: row of the result of each vertex
        sums: wp.array1d(dtype=Row),  # [S x blocks], in and out: set to 0
        ring: wp.array1d(dtype=Row),  # workspace; a row of zeros behind each ring
        out: wp.array1d(dtype=Row),  # [rows x blocks], out
    ):
        """Blur sums along all axes while their rows are in the cache: each axis follows the one
        before as closely as its neighbors allow. For one thread."""
        blocks = blocks_of(row_blocks)
        count = slot.shape[0]
        axes = column.shape[0]
        for end in range(size, count + lag[axes] + size, size):
            move_rows(
                wp.min(end - size, count), wp.min(end, count), blocks, slot, sums, mask[0], ring
            )
            for a in range(axes):
                first = wp.max(end - size - lag[a + 1], 0)
                last = wp.min(end - lag[a + 1], count)
                columns = column_at(column, a)
                if a + 1 < axes:
                    blur_rows(
                        first,
                        last,
                        blocks,
                        neighbors,
                        columns,
                        tap,
                        begin[a],
                        mask[a],
                        ring,
                        0,
                        row,
                        begin[a + 1],
                        mask[a + 1],
                        ring,
                    )
                else:
                    blur_rows(
                        first,
                        last,
                        blocks,
                        neighbors,
                        columns,
                        last_tap,
                        begin[a],
                        mask[a],
                        ring,
                        1,
                        row,
                        0,
                        0,
                        out,
                    )

    @kernel(module)
    def merge(
        start: int,
        row_blocks: int,  # blocks of a row
        into: wp.array1d(dtype=wp.int32),  # [E]
        slot: wp.array1d(dtype=wp.int32),  # [E]
        sums: wp.array1d(dtype=Row),  # [S x blocks], in and out
    ):
        """Add the sums of further runs to those of the first one at their vertices. For one
        thread."""
        blocks = blocks_of(row_blocks)
        for e in range(into.shape[0]):
            prefetch(sums, integer(slot, wp.min(e + distance, into.shape[0] - 1)) * blocks)
            prefetch(sums, integer(into, wp.min(e + distance, into.shape[0] - 1)) * blocks)
            row = integer(slot, e) * blocks
            to = integer(into, e) * blocks
            b = int(0)
            while b < blocks:
                put(sums, to + b, get(sums, to + b) + get(sums, row + b))
                put(sums, row + b, zero)
                b += 1

    @kernel(module)
    def gather(
        start: int,
        row_blocks: int,  # blocks of a row
        slot: wp.array1d(dtype=wp.int32),  # [M]: row of the sums of each vertex
        sums: wp.array1d(dtype=Row),  # [S x blocks], in and out: set to 0
        out: wp.array1d(dtype=Row),  # [M x blocks], out
    ):
        """Sums at vertices. A thread owns a vertex."""
        v = wp.tid() + start
        blocks = blocks_of(row_blocks)
        row = integer(slot, v) * blocks
        b = int(0)
        while b < blocks:
            put(out, v * blocks + b, get(sums, row + b))
            put(sums, row + b, zero)
            b += 1

    @kernel(module)
    def copy(
        start: int,
        row_blocks: int,  # blocks of a row
        source: wp.array1d(dtype=wp.int32),  # [E]
        target: wp.array1d(dtype=wp.int32),  # [E]
        values: wp.array1d(dtype=Row),  # [rows x blocks]
        out: wp.array1d(dtype=Row),  # [rows x blocks], out; may be ``values``
    ):
        """Copy rows of values. A thread owns a pair of rows."""
        e = wp.tid() + start
        blocks = blocks_of(row_blocks)
        row = integer(source, e) * blocks
        to = integer(target, e) * blocks
        b = int(0)
        while b < blocks:
            put(out, to + b, get(values, row + b))
            b += 1

    return SimpleNamespace(
        module=module,
        Column=Column,
        Tap=Tap,
        blur=blur,
        merge=merge,
        gather=gather,
        copy=copy,
    )


@cache
def make_reach(radius: int) -> SimpleNamespace:
    """Return the kernel that finds how far neighbors are apart."""
    module = named("mean_field_reach", radius)
    Column = wp.types.vector(length=2 * radius, dtype=wp.int32)
    integer, sides = reader(wp.int32), 2 * radius

    @kernel(module)
    def reach(
        start: int,
        count: int,  # vertices
        neighbors: wp.array1d(dtype=wp.int32),  # [K x M], by column, -1 where absent
        column: wp.array1d(dtype=Column),  # [A]: begins of the columns of each axis
        out: wp.array1d(dtype=wp.int32),  # [A], out
    ):
        """Largest distance between the numbers of neighbors on an axis. A thread owns an axis.

        One of two opposite neighbors has the larger number; absent ones are negative."""
        a = wp.tid() + start
        most = int(0)
        for j in range(sides):
            begin = column[a][j]
            v = int(0)
            while v < count:
                most = wp.max(most, integer(neighbors, begin + v) - v)
                v += 1
        out[a] = most

    return SimpleNamespace(module=module, Column=Column, reach=reach)
