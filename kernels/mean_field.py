"""Slice and splat of a fused mean-field step, over chunks of points.

Rows are padded to a multiple of ``LANES``, so that each is one vector without a remainder.
"""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels.module import NOT_NEGATIVE, kernel, named

# Row widths are multiples of this.
LANES = 8


@cache
def make(corners: int, width: int, dtype: type) -> SimpleNamespace:
    module = named("mean_field", corners, width, dtype)
    not_negative = NOT_NEGATIVE
    Row = wp.types.vector(length=width, dtype=dtype)
    Weight = wp.types.vector(length=corners, dtype=dtype)
    Vertex = wp.types.vector(length=corners, dtype=wp.int32)

    @kernel(module)
    def slice_first(
        start: int,
        first: int,
        vertex: wp.array1d(dtype=Vertex),  # [N]
        weight: wp.array1d(dtype=Weight),  # [N]
        values: wp.array1d(dtype=Row),  # [M]
        unary: wp.array1d(dtype=Row),  # [N]
        out: wp.array1d(dtype=Row),  # [n], out
    ):
        """Unary logits plus sliced values, for points from ``first`` on. A thread owns a point."""
        i = wp.tid() + start
        v = vertex[first + i]
        w = weight[first + i]
        total = unary[first + i]
        for k in range(corners):
            total += w[k] * values[v[k] & not_negative]
        out[i] = total

    @kernel(module)
    def slice_add(
        start: int,
        first: int,
        vertex: wp.array1d(dtype=Vertex),  # [N]
        weight: wp.array1d(dtype=Weight),  # [N]
        values: wp.array1d(dtype=Row),  # [M]
        out: wp.array1d(dtype=Row),  # [n], in and out
    ):
        """Add the sliced values, for points from ``first`` on. A thread owns a point."""
        i = wp.tid() + start
        v = vertex[first + i]
        w = weight[first + i]
        total = out[i]
        for k in range(corners):
            total += w[k] * values[v[k] & not_negative]
        out[i] = total

    @kernel(module)
    def splat(
        start: int,
        first: int,
        vertex: wp.array1d(dtype=Vertex),  # [N]
        weight: wp.array1d(dtype=Weight),  # [N]
        x: wp.array1d(dtype=Row),  # [n]
        out: wp.array1d(dtype=Row),  # [M], in and out
    ):
        """Add points from ``first`` on to their corners. Must run serially, since points share
        corners."""
        i = wp.tid() + start
        v = vertex[first + i]
        w = weight[first + i]
        row = x[i]
        for k in range(corners):
            r = v[k] & not_negative
            out[r] = out[r] + w[k] * row

    return SimpleNamespace(module=module, slice_first=slice_first, slice_add=slice_add, splat=splat)
