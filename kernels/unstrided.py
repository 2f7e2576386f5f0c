"""Access to arrays without their strides, which Warp multiplies at run time at each access."""

from functools import cache

import warp as wp

# Checked in debug mode, as Warp's own access is.
_CHECK = "assert(index >= 0 && index < rows.shape[0]);"


@cache
def reader(Row: type) -> wp.Function:
    """Return ``read(rows, index)`` for contiguous one-dimensional arrays."""

    @wp.func_native(f"{_CHECK} return rows.data[index];")
    def read(rows: wp.array1d(dtype=Row), index: int) -> Row: ...

    return read


@cache
def writer(Row: type) -> wp.Function:
    """Return ``write(rows, index, value)`` for contiguous one-dimensional arrays."""

    @wp.func_native(f"{_CHECK} rows.data[index] = value;")
    def write(rows: wp.array1d(dtype=Row), index: int, value: Row): ...

    return write
