"""Rows of channels as short vectors, so that loops over channels compile to SIMD code.

A row of ``C`` channels is read as blocks of 16, the rest as blocks of 4, the rest of that one by
one. One kernel then serves every ``C``: it takes each row array three times, once per block
length.
"""

from collections.abc import Callable
from functools import cache

import warp as wp

BLOCKS = (16, 4, 1)


@cache
def types(dtype: type) -> tuple[type, ...]:
    """The block types of scalar type ``dtype``."""
    return tuple(wp.types.vector(length=length, dtype=dtype) for length in BLOCKS)


def per_block(dtype: type, make: Callable[[type], wp.Function]) -> tuple[wp.Function, ...]:
    """One device function for each block type."""
    return tuple(make(block) for block in types(dtype))
