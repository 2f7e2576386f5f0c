"""Descriptors of tensors, as Warp kernels take them."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import torch
import warp as wp

from permutogeo.kernels.rows import BLOCKS

_LIMIT = 2**31 - 1
# Memory layout of a descriptor: data, gradient, shape, strides, ndim, flags.
_LAYOUT = "2Q4i4i2H4x"
_ROWS = -1


class Descriptor(type(wp.array(dtype=wp.float32).__ctype__())):  # type: ignore[misc]
    """Array descriptor of a kernel: pointer, shape and strides; zeros until it is written."""

    # Warp's own initializer loops in Python.
    __init__ = ctypes.Structure.__init__


class _Signature(NamedTuple):
    """Arguments of a kernel after ``start``, as it takes them.

    Attributes:
        lanes: ``None`` for a number, 0 for an array of one index, the length of its vectors for an
            array of two, and ``_ROWS`` for the three arrays of blocks of rows.
        descriptors: Makes the descriptors of all arrays.
        write: ``write(descriptors, 0, *fields)`` fills them.
    """

    lanes: list[int | None]
    descriptors: Callable[[], Any]
    write: Callable[..., None]


_signatures: dict[wp.Kernel, _Signature] = {}


def describe_arguments(kernel: wp.Kernel, args: Sequence[Any]) -> list[Any]:
    """Return the arguments after ``start`` with descriptors in place of tensors.

    The kernel's signature says how it takes a tensor: by one index, whose element is all of a
    contiguous row; by two, ``[n, C]`` with the channels in blocks of the length of its vectors; or
    as contiguous rows in blocks of all lengths (see ``kernels/rows.py``). A tensor of another
    number of axes than two is an error there: its strides would be wrong.
    """
    signature = _signatures[kernel] if kernel in _signatures else _read_signature(kernel)
    descriptors = signature.descriptors()
    described: list[Any] = []
    fields: list[int] = []
    last = 0
    for arg, lanes in zip(args, signature.lanes, strict=True):
        if lanes is None:
            described += (arg,)
            continue
        size, shape, pointer, first = arg.itemsize, arg.shape, arg.data_ptr(), last
        if lanes == _ROWS:
            count, channels = shape
            row = channels * size
            for block in BLOCKS:
                blocks, step = channels // block, block * size
                fields += (pointer, 0, count, blocks, 0, 0, row, step, 0, 0, 2, 0)
                channels -= blocks * block
                pointer += blocks * step
            last += 3
        else:
            stride = arg.stride()
            row = stride[0] * size
            if lanes:
                count, channels = shape
                blocks, step = channels // lanes, stride[1] * lanes * size
                fields += (pointer, 0, count, blocks, 0, 0, row, step, 0, 0, 2, 0)
            else:
                fields += (pointer, 0, shape[0], 0, 0, 0, row, 0, 0, 0, 1, 0)
            last += 1
        described += descriptors[first:last]
    try:
        signature.write(descriptors, 0, *fields)
    except struct.error:
        _refuse_size(args)
    return described


def _read_signature(kernel: wp.Kernel) -> _Signature:
    types = [argument.type for argument in kernel.adj.args[1:]]
    lengths = [_vector_length(each) for each in types]
    lanes: list[int | None] = []
    while lengths:
        rows = tuple(lengths[: len(BLOCKS)]) == BLOCKS
        lanes.append(_ROWS if rows else lengths[0])
        del lengths[: len(BLOCKS) if rows else 1]
    arrays = sum(isinstance(each, wp.array) for each in types)
    write = struct.Struct("=" + arrays * _LAYOUT).pack_into
    _signatures[kernel] = _Signature(lanes, Descriptor * arrays, write)
    return _signatures[kernel]


def _vector_length(kind: Any) -> int | None:
    """Return the length of the vectors of an array of two indices; 0 for one index."""
    if not isinstance(kind, wp.array):
        return None
    return getattr(kind.dtype, "_length_", 1) if kind.ndim == 2 else 0


def _refuse_size(tensors: Sequence[Any]) -> NoReturn:
    """Raise the error of a tensor whose descriptor overflows."""
    sizes = {
        max(*each.shape, *(step * each.itemsize for step in each.stride())): list(each.shape)
        for each in tensors
        if isinstance(each, torch.Tensor)
    }
    raise ValueError(
        f"Expected a tensor of at most {_LIMIT} rows of at most {_LIMIT} bytes "
        f"(got shape {sizes[max(sizes)]}); work on parts of it"
    ) from None
