"""Inner products of points and their vertices: the derivative of splat and slice in the weights."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels import rows
from permutogeo.kernels.module import NOT_NEGATIVE, kernel, named


@cache
def make(corners: int, dtype: type) -> SimpleNamespace:
    module = named("dot", corners, dtype)
    not_negative = NOT_NEGATIVE
    Row16, Row4, Row1 = rows.types(dtype)
    Weight = wp.types.vector(length=corners, dtype=dtype)
    Vertex = wp.types.vector(length=corners, dtype=wp.int32)

    def corner_dot(Row):
        @wp.func
        def corner_dot(
            x: wp.array2d(dtype=Row),
            i: int,
            values: wp.array2d(dtype=Row),
            vertex: Vertex,
            sums: Weight,
        ):
            for b in range(x.shape[1]):
                for k in range(corners):
                    sums[k] = sums[k] + wp.dot(x[i, b], values[vertex[k] & not_negative, b])
            return sums

        return corner_dot

    dot16, dot4, dot1 = rows.per_block(dtype, corner_dot)
    prefetch, distance = rows.prefetch(dtype), rows.AHEAD

    @kernel(module)
    def inner(
        start: int,
        scattered: int,  # whether the vertices of consecutive points are far apart
        vertex: wp.array1d(dtype=Vertex),  # [N]
        x16: wp.array2d(dtype=Row16),  # [N, C]
        x4: wp.array2d(dtype=Row4),
        x1: wp.array2d(dtype=Row1),
        values16: wp.array2d(dtype=Row16),  # [M, C]
        values4: wp.array2d(dtype=Row4),
        values1: wp.array2d(dtype=Row1),
        out: wp.array1d(dtype=Weight),  # [N], out
    ):
        """``<x_i, values at corner k>`` for every corner. A thread owns a point."""
        i = wp.tid() + start
        if scattered > 0:
            ahead = vertex[wp.min(i + distance, vertex.shape[0] - 1) & not_negative]
            for k in range(corners):
                prefetch(values16, ahead[k])
        v = vertex[i]
        sums = dot16(x16, i, values16, v, Weight())
        sums = dot4(x4, i, values4, v, sums)
        out[i] = dot1(x1, i, values1, v, sums)

    return SimpleNamespace(module=module, inner=inner)


@cache
def make_gpu(corners: int, dtype: type, lanes: int) -> SimpleNamespace:
    module = named("dot_gpu", corners, dtype, lanes)
    not_negative = NOT_NEGATIVE
    Row, load, _ = rows.gpu_block(dtype, lanes)

    @kernel(module)
    def inner(
        start: int,
        vertex: wp.array2d(dtype=wp.int32),  # [N, corners]
        x: wp.array2d(dtype=Row),  # [N, blocks]
        values: wp.array2d(dtype=Row),  # [M, blocks]
        out: wp.array2d(dtype=dtype),  # [N, corners], out
    ):
        """``<x_i, values at corner k>``. A thread owns a corner of a point."""
        t, k = wp.tid()
        i = t + start
        v = vertex[i, k] & not_negative
        total = dtype(0.0)
        for b in range(x.shape[1]):
            total += wp.dot(load(x, i, b), load(values, v, b))
        out[i, k] = total

    return SimpleNamespace(module=module, inner=inner)
