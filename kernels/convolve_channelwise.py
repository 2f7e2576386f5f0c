"""Convolutions that do not mix channels, and the gradients of their filters.

A *shared* filter has one scalar per tap for all channels, a *depthwise* one a scalar per tap and
channel. Values end in a row of zeros, which the index ``-1`` of an absent neighbor reads.
"""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels import rows
from permutogeo.kernels.module import kernel, named


@cache
def make_shared(dtype: type) -> SimpleNamespace:
    module = named("convolve_shared", dtype)
    Row16, Row4, Row1 = rows.types(dtype)

    def filter_row(Row):
        @wp.func
        def filter_row(
            values: wp.array2d(dtype=Row),
            v: int,
            neighbors: wp.array2d(dtype=wp.int32),
            filter: wp.array1d(dtype=dtype),
            out: wp.array2d(dtype=Row),
        ):
            for b in range(out.shape[1]):
                total = Row()
                for k in range(filter.shape[0]):
                    total += filter[k] * values[neighbors[v, k], b]
                out[v, b] = total

        return filter_row

    def row_dot(Row):
        @wp.func
        def row_dot(x: wp.array2d(dtype=Row), i: int, y: wp.array2d(dtype=Row), j: int):
            total = dtype(0.0)
            for b in range(x.shape[1]):
                total += wp.dot(x[i, b], y[j, b])
            return total

        return row_dot

    filter16, filter4, filter1 = rows.per_block(dtype, filter_row)
    dot16, dot4, dot1 = rows.per_block(dtype, row_dot)

    @kernel(module)
    def convolve(
        start: int,
        neighbors: wp.array2d(dtype=wp.int32),  # [M, K], -1 (the last row) where absent
        filter: wp.array1d(dtype=dtype),  # [K]
        values16: wp.array2d(dtype=Row16),  # [M + 1, C], the last row zero
        values4: wp.array2d(dtype=Row4),
        values1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [M, C], out
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """Apply one scalar filter to all channels. A thread owns a vertex."""
        v = wp.tid() + start
        filter16(values16, v, neighbors, filter, out16)
        filter4(values4, v, neighbors, filter, out4)
        filter1(values1, v, neighbors, filter, out1)

    @kernel(module)
    def correlate(
        start: int,
        run: int,
        neighbors: wp.array2d(dtype=wp.int32),  # [M, K], -1 (the last row) where absent
        values16: wp.array2d(dtype=Row16),  # [M + 1, C], the last row zero
        values4: wp.array2d(dtype=Row4),
        values1: wp.array2d(dtype=Row1),
        grad16: wp.array2d(dtype=Row16),  # [M, C]
        grad4: wp.array2d(dtype=Row4),
        grad1: wp.array2d(dtype=Row1),
        out: wp.array2d(dtype=wp.float64),  # [runs, K], out, zeroed by the caller
    ):
        """Filter gradient ``sum_v <values at neighbor k of v, grad_v>``. A thread owns a run of
        vertices."""
        t = wp.tid() + start
        first = t * run
        for v in range(first, first + wp.min(run, neighbors.shape[0] - first)):
            for k in range(neighbors.shape[1]):
                n = neighbors[v, k]
                inner = dot16(values16, n, grad16, v)
                inner += dot4(values4, n, grad4, v)
                inner += dot1(values1, n, grad1, v)
                out[t, k] = out[t, k] + wp.float64(inner)

    @kernel(module)
    def correlate_taps(
        start: int,
        run: int,
        neighbors: wp.array2d(dtype=wp.int32),  # [M, K], -1 (the last row) where absent
        values16: wp.array2d(dtype=Row16),  # [M + 1, C], the last row zero
        values4: wp.array2d(dtype=Row4),
        values1: wp.array2d(dtype=Row1),
        grad16: wp.array2d(dtype=Row16),  # [M, C]
        grad4: wp.array2d(dtype=Row4),
        grad1: wp.array2d(dtype=Row1),
        out: wp.array2d(dtype=wp.float64),  # [runs, K], out
    ):
        """The same on a GPU: a thread owns a tap of a run of vertices."""
        i, k = wp.tid()
        t = i + start
        total = wp.float64(0.0)
        first = t * run
        for v in range(first, first + wp.min(run, neighbors.shape[0] - first)):
            n = neighbors[v, k]
            inner = dot16(values16, n, grad16, v)
            inner += dot4(values4, n, grad4, v)
            inner += dot1(values1, n, grad1, v)
            total += wp.float64(inner)
        out[t, k] = total

    return SimpleNamespace(
        module=module, convolve=convolve, correlate=correlate, correlate_taps=correlate_taps
    )


@cache
def make_depthwise(dtype: type) -> SimpleNamespace:
    module = named("convolve_depthwise", dtype)
    Row16, Row4, Row1 = rows.types(dtype)

    def filter_row(Row):
        @wp.func
        def filter_row(
            values: wp.array2d(dtype=Row),
            v: int,
            neighbors: wp.array2d(dtype=wp.int32),
            filter: wp.array2d(dtype=Row),
            out: wp.array2d(dtype=Row),
        ):
            for b in range(out.shape[1]):
                total = Row()
                for k in range(filter.shape[0]):
                    total += wp.cw_mul(filter[k, b], values[neighbors[v, k], b])
                out[v, b] = total

        return filter_row

    def add_product(Row):
        @wp.func
        def add_product(
            x: wp.array2d(dtype=Row),
            i: int,
            y: wp.array2d(dtype=Row),
            j: int,
            r: int,
            out: wp.array2d(dtype=Row),
        ):
            for b in range(x.shape[1]):
                out[r, b] = out[r, b] + wp.cw_mul(x[i, b], y[j, b])

        return add_product

    def sum_products(Row):
        @wp.func
        def sum_products(
            x: wp.array2d(dtype=Row),
            y: wp.array2d(dtype=Row),
            first: int,
            last: int,
            k: int,
            neighbors: wp.array2d(dtype=wp.int32),
            r: int,
            out: wp.array2d(dtype=Row),
        ):
            for b in range(out.shape[1]):
                total = Row()
                for v in range(first, last):
                    total += wp.cw_mul(x[neighbors[v, k], b], y[v, b])
                out[r, b] = total

        return sum_products

    filter16, filter4, filter1 = rows.per_block(dtype, filter_row)
    add16, add4, add1 = rows.per_block(dtype, add_product)
    sum16, sum4, sum1 = rows.per_block(dtype, sum_products)

    @kernel(module)
    def convolve(
        start: int,
        neighbors: wp.array2d(dtype=wp.int32),  # [M, K], -1 (the last row) where absent
        bank16: wp.array2d(dtype=Row16),  # [K, C]
        bank4: wp.array2d(dtype=Row4),
        bank1: wp.array2d(dtype=Row1),
        values16: wp.array2d(dtype=Row16),  # [M + 1, C], the last row zero
        values4: wp.array2d(dtype=Row4),
        values1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [M, C], out
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """Apply a filter of its own to each channel. A thread owns a vertex."""
        v = wp.tid() + start
        filter16(values16, v, neighbors, bank16, out16)
        filter4(values4, v, neighbors, bank4, out4)
        filter1(values1, v, neighbors, bank1, out1)

    @kernel(module)
    def correlate(
        start: int,
        run: int,
        neighbors: wp.array2d(dtype=wp.int32),  # [M, K], -1 (the last row) where absent
        values16: wp.array2d(dtype=Row16),  # [M + 1, C], the last row zero
        values4: wp.array2d(dtype=Row4),
        values1: wp.array2d(dtype=Row1),
        grad16: wp.array2d(dtype=Row16),  # [M, C]
        grad4: wp.array2d(dtype=Row4),
        grad1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [runs * K, C], out, zeroed by the caller
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """Filter gradient ``sum_v values at neighbor k of v * grad_v``, per channel. A thread owns
        a run of vertices."""
        t = wp.tid() + start
        taps = neighbors.shape[1]
        first = t * run
        for v in range(first, first + wp.min(run, neighbors.shape[0] - first)):
            for k in range(taps):
                n = neighbors[v, k]
                add16(values16, n, grad16, v, t * taps + k, out16)
                add4(values4, n, grad4, v, t * taps + k, out4)
                add1(values1, n, grad1, v, t * taps + k, out1)

    @kernel(module)
    def correlate_taps(
        start: int,
        run: int,
        neighbors: wp.array2d(dtype=wp.int32),  # [M, K], -1 (the last row) where absent
        values16: wp.array2d(dtype=Row16),  # [M + 1, C], the last row zero
        values4: wp.array2d(dtype=Row4),
        values1: wp.array2d(dtype=Row1),
        grad16: wp.array2d(dtype=Row16),  # [M, C]
        grad4: wp.array2d(dtype=Row4),
        grad1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [runs * K, C], out
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """The same on a GPU: a thread owns a tap of a run of vertices."""
        i, k = wp.tid()
        t = i + start
        taps = neighbors.shape[1]
        first = t * run
        last = first + wp.min(run, neighbors.shape[0] - first)
        sum16(values16, grad16, first, last, k, neighbors, t * taps + k, out16)
        sum4(values4, grad4, first, last, k, neighbors, t * taps + k, out4)
        sum1(values1, grad1, first, last, k, neighbors, t * taps + k, out1)

    return SimpleNamespace(
        module=module, convolve=convolve, correlate=correlate, correlate_taps=correlate_taps
    )
