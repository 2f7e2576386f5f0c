"""Neighbors of every vertex at every stencil offset, by a merge join of the sorted codes."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels import table
from permutogeo.kernels.module import kernel, named

# Vertices per thread, after one binary search.
BLOCK = 256


@cache
def make(words: int) -> SimpleNamespace:
    module = named("neighbors", words)
    codes = table.functions(words)
    Code, less, lower_bound = codes.Code, codes.less, codes.lower_bound
    block = BLOCK

    @kernel(module)
    def merge(
        start: int,
        code: wp.array1d(dtype=Code),  # [M], ascending
        offset: wp.array1d(dtype=Code),  # [H], one of each opposite pair
        column: wp.array2d(dtype=wp.int32),  # [H, 2], of the offset and of its opposite
        out: wp.array2d(dtype=wp.int32),  # [M, K], out, filled with -1 by the caller
    ):
        """Find the vertex at ``code + offset``, and enter the opposite neighbor too. A thread owns
        a block of vertices and one offset.

        Adding the offset keeps the codes ascending, so two pointers find every match. A target is
        matched once, so that its opposite entry has one writer.
        """
        b, h = wp.tid()
        first = (b + start) * block
        count = code.shape[0]
        shift = offset[h]
        there = column[h, 0]
        back = column[h, 1]
        j = lower_bound(code, code[first] + shift)
        for v in range(first, first + wp.min(block, count - first)):
            wanted = code[v] + shift
            while j < count and less(code[j], wanted):
                j += 1
            if j < count and code[j] == wanted:
                out[v, there] = j
                out[j, back] = v

    return SimpleNamespace(module=module, Code=Code, merge=merge)
