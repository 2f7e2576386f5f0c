"""The sparse part of learned convolutions: rows gathered for a dense product, and filters that act
on each channel by itself, with the sums their gradients need.

Values come with a row of zeros at their end: that is what the index ``-1`` of an absent neighbor
reads, so that no kernel has to branch.
"""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels import rows
from permutogeo.kernels.module import kernel, named


@cache
def make_gather(dtype: type) -> SimpleNamespace:
    module = named("gather", dtype)
    Row16, Row4, Row1 = rows.types(dtype)

    def copy_block(Row):
        @wp.func
        def copy_block(
            values: wp.array2d(dtype=Row),
            b: int,
            v: int,
            r: int,
            neighbors: wp.array2d(dtype=wp.int32),
            out: wp.array2d(dtype=Row),
        ):
            for k in range(neighbors.shape[1]):
                out[r + k, b] = values[neighbors[v, k], b]

        return copy_block

    copy16, copy4, copy1 = rows.per_block(dtype, copy_block)

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
        """Neighbors' values of vertices from ``first`` on, side by side; a thread owns a vertex."""
        i = wp.tid() + start
        r = i * neighbors.shape[1]
        for b in range(out16.shape[1]):
            copy16(values16, b, first + i, r, neighbors, out16)
        for b in range(out4.shape[1]):
            copy4(values4, b, first + i, r, neighbors, out4)
        for b in range(out1.shape[1]):
            copy1(values1, b, first + i, r, neighbors, out1)

    return SimpleNamespace(module=module, gather=gather)


@cache
def make_channelwise(dtype: type) -> SimpleNamespace:
    module = named("channelwise", dtype)
    Row16, Row4, Row1 = rows.types(dtype)

    def stencil_sum(Row):
        @wp.func
        def shared_sum(
            values: wp.array2d(dtype=Row),
            b: int,
            v: int,
            neighbors: wp.array2d(dtype=wp.int32),
            filter: wp.array1d(dtype=dtype),
        ):
            total = Row()
            for k in range(filter.shape[0]):
                total += filter[k] * values[neighbors[v, k], b]
            return total

        return shared_sum

    def depthwise_sum(Row):
        @wp.func
        def depthwise_sum(
            values: wp.array2d(dtype=Row),
            b: int,
            v: int,
            neighbors: wp.array2d(dtype=wp.int32),
            filter: wp.array2d(dtype=Row),
        ):
            total = Row()
            for k in range(filter.shape[0]):
                total += wp.cw_mul(filter[k, b], values[neighbors[v, k], b])
            return total

        return depthwise_sum

    def row_dot(Row):
        @wp.func
        def row_dot(x: wp.array2d(dtype=Row), i: int, y: wp.array2d(dtype=Row), j: int):
            total = dtype(0.0)
            for b in range(x.shape[1]):
                total += wp.dot(x[i, b], y[j, b])
            return total

        return row_dot

    def row_product(Row):
        @wp.func
        def row_product(
            x: wp.array2d(dtype=Row),
            i: int,
            y: wp.array2d(dtype=Row),
            j: int,
            r: int,
            out: wp.array2d(dtype=Row),
        ):
            for b in range(x.shape[1]):
                out[r, b] = out[r, b] + wp.cw_mul(x[i, b], y[j, b])

        return row_product

    shared16, shared4, shared1 = rows.per_block(dtype, stencil_sum)
    deep16, deep4, deep1 = rows.per_block(dtype, depthwise_sum)
    dot16, dot4, dot1 = rows.per_block(dtype, row_dot)
    product16, product4, product1 = rows.per_block(dtype, row_product)

    @kernel(module)
    def shared(
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
        """One scalar filter for all channels; a thread owns a vertex."""
        v = wp.tid() + start
        for b in range(out16.shape[1]):
            out16[v, b] = shared16(values16, b, v, neighbors, filter)
        for b in range(out4.shape[1]):
            out4[v, b] = shared4(values4, b, v, neighbors, filter)
        for b in range(out1.shape[1]):
            out1[v, b] = shared1(values1, b, v, neighbors, filter)

    @kernel(module)
    def depthwise(
        start: int,
        neighbors: wp.array2d(dtype=wp.int32),  # [M, K], -1 (the last row) where absent
        filter16: wp.array2d(dtype=Row16),  # [K, C]
        filter4: wp.array2d(dtype=Row4),
        filter1: wp.array2d(dtype=Row1),
        values16: wp.array2d(dtype=Row16),  # [M + 1, C], the last row zero
        values4: wp.array2d(dtype=Row4),
        values1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [M, C], out
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """A filter for each channel; a thread owns a vertex."""
        v = wp.tid() + start
        for b in range(out16.shape[1]):
            out16[v, b] = deep16(values16, b, v, neighbors, filter16)
        for b in range(out4.shape[1]):
            out4[v, b] = deep4(values4, b, v, neighbors, filter4)
        for b in range(out1.shape[1]):
            out1[v, b] = deep1(values1, b, v, neighbors, filter1)

    @kernel(module)
    def shared_grad(
        start: int,
        run: int,
        neighbors: wp.array2d(dtype=wp.int32),  # [M, K], -1 (the last row) where absent
        values16: wp.array2d(dtype=Row16),  # [M + 1, C], the last row zero
        values4: wp.array2d(dtype=Row4),
        values1: wp.array2d(dtype=Row1),
        grad16: wp.array2d(dtype=Row16),  # [M, C]
        grad4: wp.array2d(dtype=Row4),
        grad1: wp.array2d(dtype=Row1),
        out: wp.array2d(dtype=wp.float64),  # [runs, K], out, zero before
    ):
        """``sum_v <values at neighbor k of v, grad_v>`` over a run of vertices, a thread's own."""
        t = wp.tid() + start
        for v in range(t * run, wp.min((t + 1) * run, neighbors.shape[0])):
            for k in range(neighbors.shape[1]):
                n = neighbors[v, k]
                inner = dot16(values16, n, grad16, v)
                inner += dot4(values4, n, grad4, v)
                inner += dot1(values1, n, grad1, v)
                out[t, k] = out[t, k] + wp.float64(inner)

    @kernel(module)
    def depthwise_grad(
        start: int,
        run: int,
        neighbors: wp.array2d(dtype=wp.int32),  # [M, K], -1 (the last row) where absent
        values16: wp.array2d(dtype=Row16),  # [M + 1, C], the last row zero
        values4: wp.array2d(dtype=Row4),
        values1: wp.array2d(dtype=Row1),
        grad16: wp.array2d(dtype=Row16),  # [M, C]
        grad4: wp.array2d(dtype=Row4),
        grad1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [runs * K, C], out, zero before
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """The same for each channel by itself; a thread owns a run of vertices."""
        t = wp.tid() + start
        taps = neighbors.shape[1]
        for v in range(t * run, wp.min((t + 1) * run, neighbors.shape[0])):
            for k in range(taps):
                n = neighbors[v, k]
                product16(values16, n, grad16, v, t * taps + k, out16)
                product4(values4, n, grad4, v, t * taps + k, out4)
                product1(values1, n, grad1, v, t * taps + k, out1)

    return SimpleNamespace(
        module=module,
        shared=shared,
        depthwise=depthwise,
        shared_grad=shared_grad,
        depthwise_grad=depthwise_grad,
    )
