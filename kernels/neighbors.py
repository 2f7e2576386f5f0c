"""Neighbors of every vertex at every stencil offset, by merging the sorted codes with
themselves."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels import table
from permutogeo.kernels.module import kernel, named

# Vertices a thread walks after one binary search.
BLOCK = 256


@cache
def make(words: int) -> SimpleNamespace:
    module = named("neighbors", words)
    Code = table.functions(words).Code
    block = BLOCK

    @wp.func
    def less(a: Code, b: Code):
        """Lexicographic order of the words."""
        result = bool(False)
        decided = bool(False)
        for w in range(words):
            if not decided and a[w] != b[w]:
                result = a[w] < b[w]
                decided = True
        return result

    @kernel(module)
    def merge(
        start: int,
        code: wp.array1d(dtype=Code),  # [M], ascending
        offset: wp.array1d(dtype=Code),  # [H], one of each pair of opposite offsets
        column: wp.array2d(dtype=wp.int32),  # [H, 2], of the offset and of its opposite
        out: wp.array2d(dtype=wp.int32),  # [M, K], out, -1 before
    ):
        """The vertex at ``code + offset``, and the way back; a thread owns a block and one offset.

        Adding the offset keeps the codes ascending, so two pointers find every match. Each match is
        the only one of its target, so the entry for the way back has one writer too.
        """
        b, h = wp.tid()
        first = (b + start) * block
        count = code.shape[0]
        shift = offset[h]
        there = column[h, 0]
        back = column[h, 1]
        wanted = code[first] + shift
        j = int(0)
        high = count
        while j < high:
            middle = (j + high) >> 1
            if less(code[middle], wanted):
                j = middle + 1
            else:
                high = middle
        for v in range(first, wp.min(first + block, count)):
            wanted = code[v] + shift
            while j < count and less(code[j], wanted):
                j += 1
            if j < count and code[j] == wanted:
                out[v, there] = j
                out[j, back] = v

    return SimpleNamespace(module=module, Code=Code, merge=merge)
