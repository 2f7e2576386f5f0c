"""Matrices and vectors with the buffer protocol, in place of Eigen's."""

from __future__ import annotations

from typing import Any

import numpy as np

from permutogeo.compat.pydensecrf._arguments import keep_one_copy, read_buffer


class _PlainResults(np.ndarray):
    """An array subclass whose results in numpy functions are plain arrays."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return True

    def __array_wrap__(
        self, array: np.ndarray, context: Any = None, return_scalar: bool = False
    ) -> Any:
        plain = array.view(np.ndarray)
        return plain[()] if return_scalar else plain

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _to_plain(super().__array_function__(function, types, args, kwargs))


class MatrixXf(_PlainResults):
    """A float32 matrix in column-major order; the constructor makes an empty one.

    Inference returns it with labels by points: ``np.array(Q)`` has the shape ``(L, N)``.
    """

    def __new__(cls, *_: Any, **__: Any) -> MatrixXf:
        return super().__new__(cls, (0, 0), np.float32, order="F")


class VectorXf(_PlainResults):
    """A float32 vector; the constructor makes an empty one."""

    def __new__(cls, *_: Any, **__: Any) -> VectorXf:
        return super().__new__(cls, (0,), np.float32)


def matrixXf(arr: Any) -> MatrixXf:
    """Return a copy of a C-contiguous float32 array of two dimensions.

    Example:

        >>> np.array(matrixXf(np.eye(2, dtype=np.float32)))
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    return np.array(read_buffer("arr", arr, 2), order="F").view(MatrixXf)


def vectorXf(arr: Any) -> VectorXf:
    """Return a copy of a contiguous float32 array of one dimension."""
    return np.array(read_buffer("arr", arr, 1)).view(VectorXf)


def _to_plain(result: Any) -> Any:
    if isinstance(result, _PlainResults):
        return result.view(np.ndarray)
    if type(result) in (tuple, list):
        return type(result)(map(_to_plain, result))
    return result


keep_one_copy(__name__)
