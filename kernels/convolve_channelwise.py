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

    return SimpleNamespace(module=module, convolve=convolve, correlate=correlate)


@cache
def make_shared_gpu(dtype: type, lanes: int) -> SimpleNamespace:
    module = named("convolve_shared_gpu", dtype, lanes)
    Row, load, store = rows.gpu_block(dtype, lanes)

    @kernel(module)
    def convolve(
        start: int,
        neighbors: wp.array2d(dtype=wp.int32),  # [M, K], -1 (row M) where absent
        filter: wp.array1d(dtype=dtype),  # [K]
        values: wp.array2d(dtype=Row),  # [M + 1, blocks], the last row zero
        out: wp.array2d(dtype=Row),  # [M, blocks], out
    ):
        """Apply one scalar filter to all channels. A thread owns a block of a vertex's row."""
        t, b = wp.tid()
        v = t + start
        total = Row()
        for k in range(filter.shape[0]):
            r = neighbors[v, k]
            total += filter[k] * load(values, wp.where(r < 0, neighbors.shape[0], r), b)
        store(out, v, b, total)

    @kernel(module)
    def correlate(
        start: int,
        run: int,
        neighbors: wp.array2d(dtype=wp.int32),  # [M, K], -1 (row M) where absent
        values: wp.array2d(dtype=Row),  # [M + 1, blocks], the last row zero
        grad: wp.array2d(dtype=Row),  # [M, blocks]
        out: wp.array2d(dtype=wp.float64),  # [runs, K], out
    ):
        """Filter gradient ``sum_v <values at neighbor k of v, grad_v>``. A thread owns a tap of a
        run of vertices."""
        i, k = wp.tid()
        t = i + start
        total = wp.float64(0.0)
        first = t * run
        for v in range(first, first + wp.min(run, neighbors.shape[0] - first)):
            r = neighbors[v, k]
            n = wp.where(r < 0, neighbors.shape[0], r)
            inner = dtype(0.0)
            for b in range(grad.shape[1]):
                inner += wp.dot(load(values, n, b), load(grad, v, b))
            total += wp.float64(inner)
        out[t, k] = total

    return SimpleNamespace(module=module, convolve=convolve, correlate=correlate)


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

    filter16, filter4, filter1 = rows.per_block(dtype, filter_row)
    add16, add4, add1 = rows.per_block(dtype, add_product)

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

    return SimpleNamespace(module=module, convolve=convolve, correlate=correlate)


@cache
def make_depthwise_gpu(dtype: type, lanes: int) -> SimpleNamespace:
    module = named("convolve_depthwise_gpu", dtype, lanes)
    Row, load, store = rows.gpu_block(dtype, lanes)

    @kernel(module)
    def convolve(
        start: int,
        neighbors: wp.array2d(dtype=wp.int32),  # [M, K], -1 (row M) where absent
        bank: wp.array2d(dtype=Row),  # [K, blocks]
        values: wp.array2d(dtype=Row),  # [M + 1, blocks], the last row zero
        out: wp.array2d(dtype=Row),  # [M, blocks], out
    ):
        """Apply a filter of its own to each channel. A thread owns a block of a vertex's row."""
        t, b = wp.tid()
        v = t + start
        total = Row()
        for k in range(bank.shape[0]):
            r = neighbors[v, k]
            row = load(values, wp.where(r < 0, neighbors.shape[0], r), b)
            total += wp.cw_mul(load(bank, k, b), row)
        store(out, v, b, total)

    @kernel(module)
    def correlate(
        start: int,
        run: int,
        neighbors: wp.array2d(dtype=wp.int32),  # [M, K], -1 (row M) where absent
        values: wp.array2d(dtype=Row),  # [M + 1, blocks], the last row zero
        grad: wp.array2d(dtype=Row),  # [M, blocks]
        out: wp.array2d(dtype=Row),  # [runs * K, blocks], out
    ):
        """Filter gradient ``sum_v values at neighbor k of v * grad_v``, per channel. A thread owns
        a block of channels of a tap of a run of vertices."""
        i, k, b = wp.tid()
        t = i + start
        total = Row()
        first = t * run
        for v in range(first, first + wp.min(run, neighbors.shape[0] - first)):
            r = neighbors[v, k]
            row = load(values, wp.where(r < 0, neighbors.shape[0], r), b)
            total += wp.cw_mul(row, load(grad, v, b))
        store(out, t * neighbors.shape[1] + k, b, total)

    return SimpleNamespace(module=module, convolve=convolve, correlate=correlate)
