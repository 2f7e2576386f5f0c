"""Vertices of a lattice on the lattice of half the resolution, by arithmetic on their codes."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels import table
from permutogeo.kernels.module import kernel, named


@cache
def make(words: int) -> SimpleNamespace:
    module = named("midpoints", words)
    codes = table.functions(words)
    Code, lower_bound = codes.Code, codes.lower_bound

    @kernel(module)
    def halve(
        start: int,
        code: wp.array2d(dtype=wp.int64),  # [M, words of the fine codes]
        box: wp.array2d(dtype=wp.int64),  # [dim + 1, 2 + words of the fine codes]
        coarse_code: wp.array1d(dtype=Code),  # [M'], ascending
        coarse_box: wp.array2d(dtype=wp.int64),  # [dim + 1, 2 + words]
        out: wp.array2d(dtype=wp.int32),  # [M, 2], out, -1 where absent
    ):
        """Find the coarse vertices ``floor(c / 2)`` and ``ceil(c / 2)`` of a fine vertex ``c``. A
        thread owns a fine vertex."""
        v = wp.tid() + start
        last = box.shape[0] - 1  # the graph, which is not halved
        count = coarse_code.shape[0]
        for side in range(2):
            wanted = Code()
            inside = bool(True)
            for j in range(box.shape[0]):
                c = wp.int64(0)
                for w in range(code.shape[1]):
                    stride = box[j, 2 + w]
                    if stride > wp.int64(0):  # in one word only
                        c = (code[v, w] / stride) % box[j, 1] + box[j, 0]
                if j < last:
                    below = c >> wp.int64(1)
                    if side == 0:
                        c = below
                    else:
                        c = c - below
                relative = c - coarse_box[j, 0]
                inside = inside and relative >= wp.int64(0) and relative < coarse_box[j, 1]
                for w in range(words):
                    wanted[w] = wanted[w] + relative * coarse_box[j, 2 + w]
            found = int(-1)
            if inside:
                i = lower_bound(coarse_code, wanted)
                if i < count and coarse_code[i] == wanted:
                    found = i
            out[v, side] = found

    return SimpleNamespace(module=module, Code=Code, halve=halve)
