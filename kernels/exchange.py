"""The two halves of a step of mean field that touch points: values read at their corners, and
marginals added up there.

Rows are as wide as a whole number of vectors, so that one kernel without remainders serves them.
"""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels.module import NOT_NEGATIVE, kernel, named

# Numbers in a vector: what rows are padded to a multiple of.
LANES = 8


@cache
def make(corners: int, width: int, dtype: type) -> SimpleNamespace:
    module = named("exchange", corners, width, dtype)
    not_negative = NOT_NEGATIVE
    Row = wp.types.vector(length=width, dtype=dtype)
    Weight = wp.types.vector(length=corners, dtype=dtype)
    Vertex = wp.types.vector(length=corners, dtype=wp.int32)

    @kernel(module)
    def begin(
        start: int,
        first: int,
        vertex: wp.array1d(dtype=Vertex),  # [N]
        weight: wp.array1d(dtype=Weight),  # [N]
        values: wp.array1d(dtype=Row),  # [M]
        unary: wp.array1d(dtype=Row),  # [N]
        out: wp.array1d(dtype=Row),  # [n], out
    ):
        """Unaries plus values at the corners of points from ``first`` on; a thread owns a point."""
        i = wp.tid() + start
        v = vertex[first + i]
        w = weight[first + i]
        total = unary[first + i]
        for k in range(corners):
            total += w[k] * values[v[k] & not_negative]
        out[i] = total

    @kernel(module)
    def add(
        start: int,
        first: int,
        vertex: wp.array1d(dtype=Vertex),  # [N]
        weight: wp.array1d(dtype=Weight),  # [N]
        values: wp.array1d(dtype=Row),  # [M]
        out: wp.array1d(dtype=Row),  # [n], in and out
    ):
        """Add the values at the corners of points from ``first`` on; a thread owns a point."""
        i = wp.tid() + start
        v = vertex[first + i]
        w = weight[first + i]
        total = out[i]
        for k in range(corners):
            total += w[k] * values[v[k] & not_negative]
        out[i] = total

    @kernel(module)
    def scatter(
        start: int,
        first: int,
        vertex: wp.array1d(dtype=Vertex),  # [N]
        weight: wp.array1d(dtype=Weight),  # [N]
        x: wp.array1d(dtype=Row),  # [n]
        out: wp.array1d(dtype=Row),  # [M], in and out
    ):
        """Add points from ``first`` on to their corners. One launch after another, on one thread of
        a CPU: points share corners."""
        i = wp.tid() + start
        v = vertex[first + i]
        w = weight[first + i]
        row = x[i]
        for k in range(corners):
            r = v[k] & not_negative
            out[r] = out[r] + w[k] * row

    return SimpleNamespace(module=module, begin=begin, add=add, scatter=scatter)
