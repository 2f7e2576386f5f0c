"""Arguments as compiled code takes them: typed buffers and C numbers, with the same errors."""

from __future__ import annotations

import ctypes
from numbers import Number
from typing import Any

import numpy as np

# What the buffer protocol calls the types that are accepted, and what numpy does.
_FORMATS = {"float": (("f",), "float32"), "unsigned char": (("B", "?"), "uint8")}
_INT_LIMIT = 2**31


def read_buffer(name: str, value: Any, ndim: int, kind: str = "float") -> np.ndarray:
    """The array behind an object with the buffer protocol: writable, contiguous, of one type.

    Args:
        kind: ``"float"`` or ``"unsigned char"``.
    """
    if value is None:
        raise TypeError(f"Argument '{name}' must not be None")
    view = memoryview(value)
    shape = list(view.shape or ())
    # numpy refuses with one exception what other exporters refuse with another.
    refused = ValueError if isinstance(value, np.ndarray) else BufferError
    if not view.c_contiguous:
        raise refused(
            f"Expected '{name}' to be C-contiguous (got {shape} in another order); pass "
            f"np.ascontiguousarray({name})"
        )
    if view.readonly:
        raise refused(f"Expected '{name}' to be writable (got a read-only buffer); pass a copy")
    if view.ndim != ndim:
        raise ValueError(f"Expected '{name}' of {ndim} dimensions (got {view.ndim}: {shape})")
    formats, dtype = _FORMATS[kind]
    if view.format not in formats:
        raise ValueError(
            f"Buffer dtype mismatch, expected '{kind}' for '{name}' (got "
            f"{np.asarray(value).dtype}); pass {name}.astype(np.{dtype})"
        )
    return np.asarray(view)


def read_int(value: Any) -> int:
    """A number as a C ``int``: fractions are cut off."""
    if not (hasattr(value, "__int__") or hasattr(value, "__index__")):
        raise TypeError(f"an integer is required (got {type(value).__name__})")
    number = int(value)
    if not -_INT_LIMIT <= number < _INT_LIMIT:
        raise OverflowError(f"value too large to convert to int (got {number})")
    return number


def read_sigmas(name: str, value: Any, count: int) -> np.ndarray:
    """Bandwidths in single precision, from one number for all or a sequence that starts with
    ``count`` of them."""
    each: list = [value] * count
    if not isinstance(value, Number):
        each = [value[i] for i in range(count)]
    sigmas = np.array([ctypes.c_float(sigma).value for sigma in each], np.float32)
    if np.isnan(sigmas).any() or not sigmas.all():
        raise ValueError(f"Expected '{name}' to be numbers other than 0 (got {value})")
    return sigmas
