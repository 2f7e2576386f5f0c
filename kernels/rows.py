"""Rows of channels as short vectors, so that loops over channels compile to SIMD code.

A row of ``C`` channels is read as blocks of 16, the rest as blocks of 4 and the remainder one by
one, so that one kernel serves every ``C``. A kernel takes each row array three times, once per
block length, and calls one device function per block length.
"""

from collections.abc import Callable
from functools import cache

import warp as wp

BLOCKS = (16, 4, 1)


@cache
def types(dtype: type) -> tuple[type, ...]:
    """Return the block types of scalar type ``dtype``."""
    return tuple(wp.types.vector(length=length, dtype=dtype) for length in BLOCKS)


def per_block(dtype: type, make: Callable[[type], wp.Function]) -> tuple[wp.Function, ...]:
    """Return one device function for each block type."""
    return tuple(make(block) for block in types(dtype))
