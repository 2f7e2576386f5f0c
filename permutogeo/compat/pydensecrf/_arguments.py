"""Argument parsing with the types and errors of pydensecrf's compiled code."""

from __future__ import annotations

import ctypes
import importlib
import sys
from numbers import Number
from typing import Any

import numpy as np
import torch
from torch import Tensor

# Accepted formats of the buffer protocol, and the numpy type.
_FORMATS = {"float": (("f",), "float32"), "unsigned char": (("B", "?"), "uint8")}
_INT_LIMIT = 2**31


def read_buffer(
    name: str, value: Any, ndim: int, kind: str = "float", writable: bool = True
) -> np.ndarray:
    """Return the array of a contiguous buffer of one type.

    Args:
        kind: ``"float"`` or ``"unsigned char"``.
        writable: Refuse read-only buffers, as pydensecrf does.
    """
    if value is None:
        raise TypeError(f"Argument '{name}' must not be None")
    view = memoryview(value)
    shape = list(view.shape or ())
    # numpy raises ValueError, other exporters raise BufferError.
    refused = ValueError if isinstance(value, np.ndarray) else BufferError
    if not view.c_contiguous:
        raise refused(
            f"Expected '{name}' to be C-contiguous (got {shape} in another order); pass "
            f"np.ascontiguousarray({name})"
        )
    if writable and view.readonly:
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


def keep_one_copy(name: str) -> None:
    """Point ``sys.modules[name]`` at the original of a module that was imported under an alias.

    After ``sys.modules["pydensecrf"] = permutogeo.compat.pydensecrf``, importing
    ``pydensecrf.eigen`` would otherwise define its classes a second time.
    """
    original = f"{__package__}.{name.rpartition('.')[2]}"
    if name != original:
        sys.modules[name] = importlib.import_module(original)


def read_int(value: Any) -> int:
    """Convert a number to a C ``int``, truncating fractions."""
    if not (hasattr(value, "__int__") or hasattr(value, "__index__")):
        raise TypeError(f"an integer is required (got {type(value).__name__})")
    number = int(value)
    if not -_INT_LIMIT <= number < _INT_LIMIT:
        raise OverflowError(f"value too large to convert to int (got {number})")
    return number


def read_sigmas(name: str, value: Any, count: int) -> np.ndarray:
    """Return ``count`` float32 bandwidths, from one number or the start of a sequence."""
    if isinstance(value, str | bytes):
        raise TypeError(f"Expected '{name}' to be a number or {count} numbers (got {value!r})")
    each: list = [value] * count
    if not isinstance(value, Number):
        each = [value[i] for i in range(count)]
    sigmas = np.array([ctypes.c_float(sigma).value for sigma in each], np.float32)
    if np.isnan(sigmas).any() or not sigmas.all():
        raise ValueError(f"Expected '{name}' to be numbers other than 0 (got {value})")
    return sigmas


def read_compatibility(compat: Any) -> float | Tensor:
    """Return a float, a float32 vector or a symmetric float32 matrix."""
    value: Any
    if isinstance(compat, Number):
        value = np.float32(ctypes.c_float(compat).value)  # type: ignore[arg-type]
    elif (ndim := memoryview(compat).ndim) in (1, 2):
        value = read_buffer("compat", compat, ndim)
    else:
        raise ValueError(
            f"Expected 'compat' to be a number, a vector or a matrix (got {ndim} dimensions)"
        )
    if not np.isfinite(value).all():
        raise ValueError(f"Expected 'compat' to be finite (got {compat})")
    if value.ndim == 0:
        return float(value)
    if value.ndim == 1:
        return torch.from_numpy(value.copy())
    if value.shape[0] != value.shape[1]:
        raise ValueError(f"Expected 'compat' to be square (got {list(value.shape)})")
    return torch.from_numpy((value + value.T) / 2)


def check_type(name: str, value: Any, kind: type) -> None:
    """Raise unless ``value`` is an instance of ``kind``."""
    if not isinstance(value, kind):
        raise TypeError(
            f"Argument '{name}' has incorrect type (expected {kind.__name__}, "
            f"got {type(value).__name__})"
        )
