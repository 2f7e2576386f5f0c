"""Gathering of neighbors for the dense product of a learned convolution.

Values end in a row of zeros, which the index ``-1`` of an absent neighbor reads: no kernel has to
branch.
"""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels import rows
from permutogeo.kernels.module import kernel, named


@cache
def make(dtype: type) -> SimpleNamespace:
    module = named("convolve", dtype)
    Row16, Row4, Row1 = rows.types(dtype)

    def copy_neighbors(Row):
        @wp.func
        def copy_neighbors(
            values: wp.array2d(dtype=Row),
            v: int,
            r: int,
            neighbors: wp.array2d(dtype=wp.int32),
            out: wp.array2d(dtype=Row),
        ):
            for b in range(out.shape[1]):
                for k in range(neighbors.shape[1]):
                    out[r + k, b] = values[neighbors[v, k], b]

        return copy_neighbors

    copy16, copy4, copy1 = rows.per_block(dtype, copy_neighbors)

    @kernel(module)
    def gather(
        start: int,
        first: int,
        neighbors: wp.array2d(dtype=wp.int32),  # [M, K], -1 (the last row) where absent
        values16: wp.array2d(dtype=Row16),  # [M + 1, C], the last row zero
        values4: wp.array2d(dtype=Row4),
        values1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [n * K, C], out
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """Copy the values of the neighbors of vertices from ``first`` on. A thread owns a
        vertex."""
        i = wp.tid() + start
        r = i * neighbors.shape[1]
        copy16(values16, first + i, r, neighbors, out16)
        copy4(values4, first + i, r, neighbors, out4)
        copy1(values1, first + i, r, neighbors, out1)

    return SimpleNamespace(module=module, gather=gather)


@cache
def make_gpu(dtype: type, lanes: int) -> SimpleNamespace:
    module = named("convolve_gpu", dtype, lanes)
    Row, load, store = rows.gpu_block(dtype, lanes)

    @kernel(module)
    def gather(
        start: int,
        first: int,
        neighbors: wp.array2d(dtype=wp.int32),  # [M, K], -1 (row M) where absent
        values: wp.array2d(dtype=Row),  # [M + 1, blocks], the last row zero
        out: wp.array2d(dtype=Row),  # [n * K, blocks], out
    ):
        """Copy the values of the neighbors of vertices from ``first`` on. A thread owns a block of
        a neighbor's row."""
        t, k, b = wp.tid()
        i = t + start
        r = neighbors[first + i, k]
        row = load(values, wp.where(r < 0, neighbors.shape[0], r), b)
        store(out, i * neighbors.shape[1] + k, b, row)

    return SimpleNamespace(module=module, gather=gather)
