"""Slice: values at vertices to values at points."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels import rows
from permutogeo.kernels.module import NOT_NEGATIVE, kernel, named


@cache
def make(corners: int, dtype: type) -> SimpleNamespace:
    module = named("slice", corners, dtype)
    not_negative = NOT_NEGATIVE
    Row16, Row4, Row1 = rows.types(dtype)
    Weight = wp.types.vector(length=corners, dtype=dtype)
    Vertex = wp.types.vector(length=corners, dtype=wp.int32)

    def interpolate(Row):
        @wp.func
        def interpolate(
            values: wp.array2d(dtype=Row),
            i: int,
            vertex: Vertex,
            weight: Weight,
            out: wp.array2d(dtype=Row),
        ):
            for b in range(out.shape[1]):
                total = Row()
                for k in range(corners):
                    total += weight[k] * values[vertex[k] & not_negative, b]
                out[i, b] = total

        return interpolate

    slice16, slice4, slice1 = rows.per_block(dtype, interpolate)
    prefetch, distance = rows.prefetch(dtype), rows.AHEAD

    @kernel(module)
    def gather(
        start: int,
        scattered: int,  # whether the vertices of consecutive points are far apart
        vertex: wp.array1d(dtype=Vertex),  # [N]
        weight: wp.array1d(dtype=Weight),  # [N]
        values16: wp.array2d(dtype=Row16),  # [M, C]
        values4: wp.array2d(dtype=Row4),
        values1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [N, C], out
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """Weighted sum over the corners of a point. A thread owns a point."""
        i = wp.tid() + start
        if scattered > 0:
            ahead = vertex[wp.min(i + distance, vertex.shape[0] - 1) & not_negative]
            for k in range(corners):
                prefetch(values16, ahead[k])
        v = vertex[i]
        w = weight[i]
        slice16(values16, i, v, w, out16)
        slice4(values4, i, v, w, out4)
        slice1(values1, i, v, w, out1)

    return SimpleNamespace(module=module, gather=gather)


@cache
def make_gpu(corners: int, dtype: type, lanes: int) -> SimpleNamespace:
    module = named("slice_gpu", corners, dtype, lanes)
    not_negative = NOT_NEGATIVE
    Row, load, store = rows.gpu_block(dtype, lanes)
    Weight = wp.types.vector(length=corners, dtype=dtype)
    Vertex = wp.types.vector(length=corners, dtype=wp.int32)

    @kernel(module)
    def gather(
        start: int,
        vertex: wp.array1d(dtype=Vertex),  # [N]
        weight: wp.array1d(dtype=Weight),  # [N]
        values: wp.array2d(dtype=Row),  # [M, blocks]
        out: wp.array2d(dtype=Row),  # [N, blocks], out
    ):
        """Weighted sum over the corners of a point. A thread owns a block of a point's row."""
        t, b = wp.tid()
        i = t + start
        v = vertex[i]
        w = weight[i]
        total = Row()
        for k in range(corners):
            total += w[k] * load(values, v[k] & not_negative, b)
        store(out, i, b, total)

    return SimpleNamespace(module=module, gather=gather)
