"""Rows of values that kernels read through indices."""

from __future__ import annotations

import torch

from permutogeo import _warp


def with_zero_row(values: torch.Tensor) -> torch.Tensor:
    """A copy ``[M + 1, C]`` that ends in zeros, which the index ``-1`` of an absent vertex
    reads."""
    count, channels = values.shape
    padded = _warp.empty(count + 1, channels, dtype=values.dtype, device=values.device)
    _warp.copy(padded[:count], values)
    padded[count] = 0
    return padded
