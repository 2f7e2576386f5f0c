"""Normalization by the response of a Gaussian to ones, as layers have it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from torch import Tensor

from permutogeo._normalizer import NORMALIZATIONS, normalized, normalizers
from permutogeo.lattice import Lattice
from permutogeo.nn._check import check_choice

__all__ = ["check_normalization", "constant", "normalized", "normalizers"]


def check_normalization(layer: Any, normalize: str | None) -> None:
    """Raise unless it is one of the four."""
    check_choice(layer, "normalize", normalize, NORMALIZATIONS)


def constant(lattice: Lattice, name: Hashable, make: Callable[[], Tensor]) -> Tensor:
    """Keep a constant with the lattice. What has a gradient belongs to one backward pass alone."""
    return lattice._constant(name, make)
