"""Separable blur of the sums of mean field, in one pass over the vertices of a lattice."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels.module import kernel, named
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
    column_at = reader(Column)

    @wp.func_native(_PREFETCH)
    def prefetch(rows: wp.array1d(dtype=Row), index: int): ...

    if many:

        @wp.func
        def move_row(
            blocks: int,
            sums: wp.array1d(dtype=Row),
            row: int,
            out: wp.array1d(dtype=Row),
            to: int,
        ):
            for b in range(blocks):
                put(out, to * blocks + b, get(sums, row * blocks + b))
                put(sums, row * blocks + b, zero)

        @wp.func
        def blur_row(
            blocks: int,
            tap: Tap,
            values: wp.array1d(dtype=Row),
            here: int,
            there: Column,
            out: wp.array1d(dtype=Row),
            to: int,
        ):
            for b in range(blocks):
                total = tap[0] * get(values, here * blocks + b)
                for j in range(radius):
                    near = get(values, there[2 * j] * blocks + b)
                    far = get(values, there[2 * j + 1] * blocks + b)
                    total += tap[1 + j] * (near + far)
                put(out, to * blocks + b, total)

    else:

        @wp.func
        def move_row(
            blocks: int,
            sums: wp.array1d(dtype=Row),
            row: int,
            out: wp.array1d(dtype=Row),
            to: int,
        ):
            put(out, to, get(sums, row))
            put(sums, row, zero)

        @wp.func
        def blur_row(
            blocks: int,
            tap: Tap,
            values: wp.array1d(dtype=Row),
            here: int,
            there: Column,
            out: wp.array1d(dtype=Row),
            to: int,
        ):
            total = tap[0] * get(values, here)
            for j in range(radius):
                total += tap[1 + j] * (get(values, there[2 * j]) + get(values, there[2 * j + 1]))
            put(out, to, total)

    @wp.func
    def combine(
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
            move_row(blocks, sums, integer(slot, v), out, v & mask)
            v += 1

    @wp.func
    def axis(
        first: int,
        last: int,
        blocks: int,
        neighbors: wp.array1d(dtype=wp.int32),
        column: Column,
        tap: Tap,
        begin: int,
        mask: int,
        values: wp.array1d(dtype=Row),
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
            blur_row(blocks, tap, values, begin + (v & mask), there, out, to)
            v += 1

    @kernel(module)
    def blur(
        start: int,
        blocks: int,  # blocks of a row
        size: int,  # vertices of a window
        neighbors: wp.array1d(dtype=wp.int32),  # [K x M], by column, -1 where absent
        column: wp.array1d(dtype=Column),  # [A]: begins of the columns of each axis
        lag: wp.array1d(dtype=wp.int32),  # [A + 1]: vertices that an axis stays behind
        begin: wp.array1d(dtype=wp.int32),  # [A + 1]: first row of the ring that an axis reads
        mask: wp.array1d(dtype=wp.int32),  # [A + 1]: rows of the ring less one, a power of two
        tap: Tap,  # weight of the center, then of the neighbors on each side
        last_tap: Tap,  # the same on the last axis
        slot: wp.array1d(dtype=wp.int32),  # [M]: row of the sums of each vertex
        sums: wp.array1d(dtype=Row),  # [S x blocks], in and out: set to 0
        ring: wp.array1d(dtype=Row),  # workspace; a row of zeros behind each ring
        out: wp.array1d(dtype=Row),  # [M x blocks], out
    ):
        """Blur sums along all axes while their rows are in the cache: each axis follows the one
        before as closely as its neighbors allow. For one thread."""
        count = slot.shape[0]
        axes = column.shape[0]
        for end in range(size, count + lag[axes] + size, size):
            combine(
                wp.min(end - size, count), wp.min(end, count), blocks, slot, sums, mask[0], ring
            )
            for a in range(axes):
                first = wp.max(end - size - lag[a + 1], 0)
                last = wp.min(end - lag[a + 1], count)
                columns = column_at(column, a)
                if a + 1 < axes:
                    axis(
                        first,
                        last,
                        blocks,
                        neighbors,
                        columns,
                        tap,
                        begin[a],
                        mask[a],
                        ring,
                        begin[a + 1],
                        mask[a + 1],
                        ring,
                    )
                else:
                    axis(
                        first,
                        last,
                        blocks,
                        neighbors,
                        columns,
                        last_tap,
                        begin[a],
                        mask[a],
                        ring,
                        0,
                        mask[axes],
                        out,
                    )

    @kernel(module)
    def merge(
        start: int,
        blocks: int,  # blocks of a row
        into: wp.array1d(dtype=wp.int32),  # [E]
        slot: wp.array1d(dtype=wp.int32),  # [E]
        sums: wp.array1d(dtype=Row),  # [S x blocks], in and out
    ):
        """Add the sums of further runs to those of the first one at their vertices. For one
        thread."""
        for e in range(into.shape[0]):
            prefetch(sums, integer(slot, wp.min(e + distance, into.shape[0] - 1)) * blocks)
            prefetch(sums, integer(into, wp.min(e + distance, into.shape[0] - 1)) * blocks)
            row = integer(slot, e) * blocks
            to = integer(into, e) * blocks
            for b in range(blocks):
                put(sums, to + b, get(sums, to + b) + get(sums, row + b))
                put(sums, row + b, zero)

    @kernel(module)
    def gather(
        start: int,
        blocks: int,  # blocks of a row
        slot: wp.array1d(dtype=wp.int32),  # [M]: row of the sums of each vertex
        sums: wp.array1d(dtype=Row),  # [S x blocks], in and out: set to 0
        out: wp.array1d(dtype=Row),  # [M x blocks], out
    ):
        """Sums at vertices. A thread owns a vertex."""
        v = wp.tid() + start
        move_row(blocks, sums, integer(slot, v), out, v)

    @kernel(module)
    def expand(
        start: int,
        owner: wp.array1d(dtype=wp.int32),  # [S]: vertex of each slot, -1 for none
        values: wp.array1d(dtype=Row),  # [M]
        out: wp.array1d(dtype=Row),  # [S], out
    ):
        """Values in the order of slots. A thread owns a slot."""
        s = wp.tid() + start
        put(out, s, get(values, wp.max(integer(owner, s), 0)))

    return SimpleNamespace(
        module=module,
        Column=Column,
        Tap=Tap,
        blur=blur,
        merge=merge,
        gather=gather,
        expand=expand,
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
