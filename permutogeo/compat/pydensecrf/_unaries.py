"""Unary energies as objects, to be handed over to a CRF."""

from __future__ import annotations

from typing import Any

import numpy as np

from permutogeo.compat.pydensecrf._arguments import read_buffer


class Unary:
    """Base of the unary energies. One is used up by the first ``setUnary``."""

    __slots__ = ("_energy",)
    _energy: np.ndarray | None

    def __init__(self, *_: Any, **__: Any):
        self._energy = None

    def _take(self) -> np.ndarray | None:
        energy, self._energy = self._energy, None
        return energy


class ConstUnary(Unary):
    """Energies as they are.

    Args:
        u: :math:`(L, N)` float32, C-contiguous.
    """

    __slots__ = ()

    def __init__(self, u: Any):
        self._energy = read_buffer("u", u, 2).copy()


class LogisticUnary(Unary):
    """Energies ``L @ f`` that are linear in features of the points.

    Args:
        L: :math:`(L, k)` float32, C-contiguous.
        f: :math:`(k, N)` float32, C-contiguous.
    """

    __slots__ = ()

    def __init__(self, L: Any, f: Any):
        weight, feature = read_buffer("L", L, 2), read_buffer("f", f, 2)
        if weight.shape[1] != len(feature):
            raise ValueError(
                f"Expected 'f' with a row for each of the {weight.shape[1]} columns of 'L' "
                f"(got {list(feature.shape)})"
            )
        self._energy = weight @ feature
