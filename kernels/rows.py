"""Rows of channels as short vectors, so that loops over channels compile to SIMD code.

A row of ``C`` channels is read as blocks of 16, the rest as blocks of 4 and the remainder one by
one, so that one kernel serves every ``C``. A kernel takes each row array three times, once per
block length, and calls one device function per block length.
"""

from collections.abc import Callable
from functools import cache

import warp as wp

BLOCKS = (16, 4, 1)
# Points between the prefetch of a row and its use.
AHEAD = 16
# The hardware does not foresee which rows come next where they are in no order.
PREFETCH = """
#ifndef __CUDA_ARCH__
    __builtin_prefetch((const char*)rows.data + (size_t)index * rows.strides[0]);
#endif
"""
_PREFETCH_ROW = """
#ifndef __CUDA_ARCH__
    const char* row = (const char*)rows.data + (size_t)index * rows.strides[0];
    __builtin_prefetch(row);
    for (int block = 1; block < rows.shape.dims[1]; ++block)
        __builtin_prefetch(row + block * rows.strides[1]);
#endif
"""


@cache
def types(dtype: type) -> tuple[type, ...]:
    """Return the block types of scalar type ``dtype``."""
    return tuple(wp.types.vector(length=length, dtype=dtype) for length in BLOCKS)


@cache
def prefetch(dtype: type) -> wp.Function:
    """Return the device function that fetches a row into the cache, but for a rest of less than
    a block."""
    Row = types(dtype)[0]

    @wp.func_native(_PREFETCH_ROW)
    def prefetch(rows: wp.array2d(dtype=Row), index: int): ...

    return prefetch


def per_block(dtype: type, make: Callable[[type], wp.Function]) -> tuple[wp.Function, ...]:
    """Return one device function for each block type."""
    return tuple(make(block) for block in types(dtype))
