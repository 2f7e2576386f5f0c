"""Neighbors of every vertex at every stencil offset, by a merge join of the sorted codes."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels import table
from permutogeo.kernels.module import NOT_NEGATIVE, kernel, named
from permutogeo.kernels.unstrided import reader

# Vertices per thread, after one binary search.
BLOCK = 256


@cache
def make(words: int) -> SimpleNamespace:
    module = named("neighbors", words)
    codes = table.functions(words)
    Code, less, lower_bound = codes.Code, codes.less, codes.lower_bound
    get, block = reader(Code), BLOCK
    not_negative = NOT_NEGATIVE

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

        Adding the offset keeps the codes ascending, so two pointers find every match. Each step
        moves one pointer or both and writes what it knows so far, without branches, which no
        processor predicts. The targets of different blocks are disjoint.
        """
        b, h = wp.tid()
        v = (b + start) * block
        count = code.shape[0]
        last = v + wp.min(block, count - v)  # v + block may pass 2^31
        shift = offset[h]
        there = column[h, 0]
        back = column[h, 1]
        j = lower_bound(code, code[v] + shift)
        end = count
        if last < count:
            end = lower_bound(code, code[last] + shift)
        while v < last and j < end:
            wanted = get(code, v) + shift
            found = get(code, j)
            below = int(less(found, wanted))
            above = int(less(wanted, found))
            absent = -(below | above)
            out[v & not_negative, there] = j | absent
            out[j & not_negative, back] = v | absent
            v += 1 - below
            j += 1 - above

    return SimpleNamespace(module=module, Code=Code, merge=merge)
