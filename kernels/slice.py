"""Values at vertices to values at points."""

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

    def corner_sum(Row):
        @wp.func
        def corner_sum(values: wp.array2d(dtype=Row), b: int, vertex: Vertex, weight: Weight):
            total = Row()
            for k in range(corners):
                total += weight[k] * values[vertex[k] & not_negative, b]
            return total

        return corner_sum

    sum16, sum4, sum1 = rows.per_block(dtype, corner_sum)

    @kernel(module)
    def gather(
        start: int,
        vertex: wp.array1d(dtype=Vertex),  # [N]
        weight: wp.array1d(dtype=Weight),  # [N]
        values16: wp.array2d(dtype=Row16),  # [M, C]
        values4: wp.array2d(dtype=Row4),
        values1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [N, C], out
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """Weighted sum over the corners of a point; a thread owns a point."""
        i = wp.tid() + start
        v = vertex[i]
        w = weight[i]
        for b in range(out16.shape[1]):
            out16[i, b] = sum16(values16, b, v, w)
        for b in range(out4.shape[1]):
            out4[i, b] = sum4(values4, b, v, w)
        for b in range(out1.shape[1]):
            out1[i, b] = sum1(values1, b, v, w)

    return SimpleNamespace(module=module, gather=gather)
