"""Rows of channels as short vectors.

On the CPU loops over channels compile to SIMD code. A row of ``C`` channels is read as blocks of
16, the rest as blocks of 4 and the remainder one by one, so that one kernel serves every ``C``. A
kernel takes each row array three times, once per block length, and calls one device function per
block length.

On a GPU a thread owns one block of a row, so that neighboring threads read neighboring channels.
The blocks of all rows of a kernel have ``lanes`` channels: 16 bytes, which a thread reads by one
instruction, where all rows consist of such blocks, else one channel.
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


# Bytes of the widest load of a GPU, and the types of CUDA C++ that it reads.
WIDE_BYTES = 16
_WIDE_TYPES = {(wp.float32, 4): "float4", (wp.float64, 2): "double2"}
# Warp aligns vectors to their scalars, so that their plain loads are as narrow.
_LOAD = """
    auto address = (char*)rows.data + (size_t)index * rows.strides[0];
    auto block_address = address + (size_t)block * rows.strides[1];
#ifdef __CUDA_ARCH__
    auto value = *(const {wide}*)block_address;
    return *(decltype(rows.data))&value;
#else
    return *(decltype(rows.data))block_address;
#endif
"""
_STORE = """
    auto address = (char*)rows.data + (size_t)index * rows.strides[0];
    auto block_address = address + (size_t)block * rows.strides[1];
#ifdef __CUDA_ARCH__
    *({wide}*)block_address = *(const {wide}*)&value;
#else
    *(decltype(rows.data))block_address = value;
#endif
"""


@cache
def gpu_block(dtype: type, lanes: int) -> tuple[type, wp.Function, wp.Function]:
    """Return the type of a block of a row on a GPU, and the functions that load and store one.

    ``load(rows, index, block)`` and ``store(rows, index, block, value)`` take an index that is not
    negative, and blocks aligned to their size.
    """
    Row = wp.types.vector(length=lanes, dtype=dtype)
    scalar = {wp.float32: "float", wp.float64: "double"}[dtype]
    wide = _WIDE_TYPES.get((dtype, lanes), scalar)
    assert lanes == 1 or wide != scalar, (dtype, lanes)
    load_source, store_source = _LOAD.format(wide=wide), _STORE.format(wide=wide)

    @wp.func_native(load_source)
    def load(rows: wp.array2d(dtype=Row), index: int, block: int) -> Row: ...

    @wp.func_native(store_source)
    def store(rows: wp.array2d(dtype=Row), index: int, block: int, value: Row): ...

    return Row, load, store


def per_block(dtype: type, make: Callable[[type], wp.Function]) -> tuple[wp.Function, ...]:
    """Return one device function for each block type."""
    return tuple(make(block) for block in types(dtype))


@cache
def block_counter(many: bool) -> wp.Function:
    """Return the device function of the number of blocks of a row: the given one if rows may have
    ``many``, else 1, which lets the compiler drop loops over blocks."""

    @wp.func
    def given(blocks: int):
        return blocks

    @wp.func
    def one(blocks: int):
        return 1

    return given if many else one
