"""Floating-point type of sums."""

from __future__ import annotations

import torch
from torch import Tensor


def working_dtype(x: Tensor) -> torch.dtype:
    """Return the type in which ``x`` is summed: float64 for float64, float32 for all others."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def widened(x: Tensor) -> Tensor:
    """Return ``x`` in the type in which it is summed."""
    return x if x.dtype in (torch.float32, torch.float64) else x.to(torch.float32)
