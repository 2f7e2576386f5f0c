"""Vertices of a lattice on the lattice of half the resolution, by arithmetic on their codes."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels import table
from permutogeo.kernels.module import kernel, named


@cache
def make(words: int) -> SimpleNamespace:
    """Return the kernels for coarse codes of ``words`` words."""
    module = named("coarsen", words)
    Code = table.functions(words).Code

    @kernel(module)
    def halve(
        start: int,
        owned: int,
        code: wp.array2d(dtype=wp.int64),  # [M, words of the fine codes]
        box: wp.array2d(dtype=wp.int64),  # [dim + 1, 2 + words of the fine codes]
        coarse_box: wp.array2d(dtype=wp.int64),  # [dim + 1, 2 + words]
        out: wp.array2d(dtype=Code),  # [2, M], out
    ):
        """Codes of the coarse vertices ``floor(c / 2)`` and ``ceil(c / 2)`` of a fine vertex ``c``.
        A thread owns ``owned`` fine vertices."""
        first = (wp.tid() + start) * owned
        axes = box.shape[0]
        for v in range(first, wp.min(first + owned, code.shape[0])):
            below = Code()
            above = Code()
            for word in range(code.shape[1]):
                rest = code[v, word]
                j = axes - 1  # the graph is the most significant
                for place in range(axes):
                    stride = box[j, 2 + word]
                    if stride > wp.int64(0):  # in one word only
                        digit = rest / stride
                        rest -= digit * stride
                        high = digit + box[j, 0]
                        low = high
                        if place > 0:  # the graph is not halved
                            low = high >> wp.int64(1)
                            high -= low
                        for w in range(words):
                            below[w] = below[w] + (low - coarse_box[j, 0]) * coarse_box[j, 2 + w]
                            above[w] = above[w] + (high - coarse_box[j, 0]) * coarse_box[j, 2 + w]
                    j = place
            out[0, v] = below
            out[1, v] = above

    return SimpleNamespace(module=module, Code=Code, halve=halve)
