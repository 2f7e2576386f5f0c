"""Voxels of a sparse tensor: checked, and sorted by their codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor

from permutogeo.checks import check_integer
from permutogeo.ops import boxes, sort_codes

_INT_LIMIT = 2**31


@dataclass(frozen=True)
class Voxels:
    """Distinct voxels in ascending order of (batch index, coordinates).

    Args:
        coordinate: Coordinates and batch index, ``[N, d + 1]`` int64.
        code: Their codes in ``box``, ``[N, words]``.
        row: Row of each voxel in the sparse tensor, ``[N]`` int32.
    """

    coordinate: Tensor
    code: Tensor
    box: Tensor
    row: Tensor

    @classmethod
    def build(cls, indices: Tensor, spatial_shape: Sequence[int], batch_size: int) -> Voxels:
        """Sort the voxels of ``indices``; raises for voxels outside of the shape and duplicates."""
        # Outside of inference mode, so that training can use the result later.
        with torch.inference_mode(False), torch.no_grad():
            return cls._build(indices, spatial_shape, batch_size)

    @classmethod
    def _build(cls, indices: Tensor, spatial_shape: Sequence[int], batch_size: int) -> Voxels:
        low, high = _bounds(indices, spatial_shape, batch_size)
        coordinate = torch.cat([indices[:, 1:], indices[:, :1]], 1).long()
        box = boxes.make(low[1:], high[1:], high[0] + 1).to(indices.device)
        code = boxes.encode(coordinate, box)
        row = torch.arange(len(code), device=code.device)
        if code.shape[1] > 1 or not bool((code[1:] > code[:-1]).all()):
            row = sort_codes(code)
            coordinate, code = coordinate[row], code[row]
        equal = (code[1:] == code[:-1]).all(1)
        if bool(equal.any()):
            _fail_for_duplicates(indices, row, int(equal.nonzero()[0]))
        return cls(coordinate, code.contiguous(), box, row.to(torch.int32))


def check_indices(indices: Any, spatial_shape: Any, batch_size: Any) -> tuple[Tensor, list[int]]:
    """Raise unless ``indices`` are rows of batch index and coordinates of ``spatial_shape``.

    Returns:
        The indices as int32, and the shape as a list.
    """
    if not isinstance(indices, Tensor):
        raise TypeError(f"Expected 'indices' to be a tensor (got {type(indices).__name__})")
    if indices.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"Expected 'indices' of type int32 (got {indices.dtype})")
    if indices.dim() != 2 or indices.shape[1] < 2:
        raise ValueError(
            f"Expected 'indices' of shape [N, 1 + d], batch index and coordinates "
            f"(got {list(indices.shape)})"
        )
    shape = [int(extent) for extent in spatial_shape]
    if len(shape) != indices.shape[1] - 1:
        raise ValueError(
            f"Expected 'spatial_shape' of {indices.shape[1] - 1} numbers, as many as 'indices' has "
            f"coordinates (got {shape})"
        )
    if not all(1 <= extent < _INT_LIMIT for extent in shape):
        raise ValueError(f"Expected 'spatial_shape' of 1 .. {_INT_LIMIT - 1} (got {shape})")
    check_integer(None, "batch_size", batch_size)
    if indices.dtype == torch.int64:
        _bounds(indices, shape, batch_size)
        indices = indices.to(torch.int32)
    return indices, shape


def _bounds(
    indices: Tensor, spatial_shape: Sequence[int], batch_size: int
) -> tuple[list[int], list[int]]:
    """Return the smallest and the largest entry of each column; raises outside of the shape."""
    extent = [batch_size, *spatial_shape]
    if len(indices) == 0:
        return [0] * len(extent), [0] * len(extent)
    low, high = (bound.tolist() for bound in indices.aminmax(dim=0))
    for column, (least, most) in enumerate(zip(low, high, strict=True)):
        if least < 0 or most >= extent[column]:
            _fail_for_range(indices, column, extent)
    return low, high


def _fail_for_range(indices: Tensor, column: int, extent: list[int]) -> NoReturn:
    outside = (indices[:, column] < 0) | (indices[:, column] >= extent[column])
    row = int(outside.nonzero()[0])
    what = "a batch index" if column == 0 else f"coordinate {column - 1}"
    raise ValueError(
        f"Expected 'indices' inside of batch size {extent[0]} and spatial shape {extent[1:]}, "
        f"{what} in 0 .. {extent[column] - 1} (got {indices[row].tolist()} in row {row})"
    )


def _fail_for_duplicates(indices: Tensor, row: Tensor, place: int) -> NoReturn:
    first, second = sorted(row[place : place + 2].tolist())
    raise ValueError(
        f"Expected distinct 'indices' (got {indices[first].tolist()} in rows {first} and "
        f"{second}); merge the features of equal voxels first"
    )
