"""Matrices and vectors that other libraries read through the buffer protocol."""

from __future__ import annotations

from typing import Any

import numpy as np

from permutogeo.compat.pydensecrf._arguments import read_buffer


class _Buffer(np.ndarray):
    """An array that numpy's functions take like any buffer: what they return is a plain array."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return True

    def __array_wrap__(
        self, array: np.ndarray, context: Any = None, return_scalar: bool = False
    ) -> Any:
        plain = array.view(np.ndarray)
        return plain[()] if return_scalar else plain

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _plain(super().__array_function__(function, types, args, kwargs))


class MatrixXf(_Buffer):
    """A matrix of single precision in column-major order, empty if made by its name.

    It is what inference returns: labels by points, ``np.array(Q)`` of shape ``(L, N)``.
    """

    def __new__(cls, *_: Any, **__: Any) -> MatrixXf:
        return super().__new__(cls, (0, 0), np.float32, order="F")


class VectorXf(_Buffer):
    """A vector of single precision, empty if made by its name."""

    def __new__(cls, *_: Any, **__: Any) -> VectorXf:
        return super().__new__(cls, (0,), np.float32)


def matrixXf(arr: Any) -> MatrixXf:
    """A copy of a C-contiguous float32 array of two dimensions.

    Example:

        >>> np.array(matrixXf(np.eye(2, dtype=np.float32)))
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    return np.array(read_buffer("arr", arr, 2), order="F").view(MatrixXf)


def vectorXf(arr: Any) -> VectorXf:
    """A copy of a contiguous float32 array of one dimension."""
    return np.array(read_buffer("arr", arr, 1)).view(VectorXf)


def _plain(result: Any) -> Any:
    if isinstance(result, _Buffer):
        return result.view(np.ndarray)
    if type(result) in (tuple, list):
        return type(result)(map(_plain, result))
    return result
