"""Stencils: the offsets that a filter reads around a vertex, in the order of its taps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product

import numpy as np
import torch

from permutogeo.checks import check_integer

# A filter of more taps would not fit into memory.
MAX_TAPS = 2**20


def stencil(dim: int, radius: int = 1) -> torch.Tensor:
    r"""Return the offsets of the full stencil, in the order of a filter's taps.

    All :math:`c \in \{0..s\}^{d+1}` with :math:`\min c = 0`, the last axis innermost; the offset is
    :math:`(d + 1) c - \sum c`. The first one is the center.

    Args:
        dim: Feature dimension :math:`d`.
        radius: Neighborhood size :math:`s`.

    Shapes:
        - output: :math:`(K, d + 1)` int64, :math:`K = (s + 1)^{d + 1} - s^{d + 1}`
    """
    num_taps(dim, radius)
    return torch.from_numpy(_offsets(dim, radius, "full").copy())


def num_taps(dim: int, radius: int, kind: str = "full") -> int:
    """Return the number of taps of a stencil."""
    _check(dim, radius, kind)
    if kind == "full":
        return (radius + 1) ** (dim + 1) - radius ** (dim + 1)
    return 1 + 2 * radius * (dim + 1 if dim > 1 else 1)


def grid_offsets(dim: int, radius: int, dilation: int, kind: str) -> torch.Tensor:
    """Return the offsets in grid coordinates, ``[K, d]``."""
    return torch.from_numpy(_grid(dim, radius, kind) * dilation)


def cubic_offsets(kernel_size: Sequence[int], dilation: Sequence[int]) -> torch.Tensor:
    """Return the offsets ``[K, d]`` of a centered box of taps, the last axis innermost."""
    axes = [
        step * (torch.arange(size) - size // 2)
        for size, step in zip(kernel_size, dilation, strict=True)
    ]
    return torch.cartesian_prod(*axes).view(-1, len(axes))


@cache
def opposite(dim: int, radius: int, kind: str) -> torch.Tensor:
    """Return the index of the negative of each offset, ``[K]``."""
    grid = _grid(dim, radius, kind)
    index = np.empty(len(grid), dtype=np.int64)
    index[np.lexsort(-grid.T)] = np.lexsort(grid.T)
    return torch.from_numpy(index)


@cache
def axis_columns(dim: int, radius: int) -> torch.Tensor:
    """Return the taps at ``+1, -1, +2, -2, ...`` on each axis, ``[d + 1, 2 radius]``."""
    place = {tuple(offset): k for k, offset in enumerate(_offsets(dim, radius, "axis").tolist())}
    steps = [sign * distance for distance in range(1, radius + 1) for sign in (1, -1)]
    columns = [
        [place[tuple((step * unit).tolist())] for step in steps] for unit in _axis_units(dim)
    ]
    return torch.tensor(columns, dtype=torch.int32).reshape(dim + 1, 2 * radius)


@cache
def gaussian(dim: int, radius: int, kind: str = "full") -> torch.Tensor:
    """Return the Gaussian as a stencil, ``[K]`` float64.

    The impulse response of the separable blur with taps ``[1/2, 1, 1/2]``, restricted to the
    stencil and divided by its center.
    """
    offsets = _offsets(dim, radius, kind)
    place = {tuple(offset): k for k, offset in enumerate(offsets.tolist())}
    response = np.zeros(len(offsets) + 1)  # the last entry stands for points outside of the stencil
    response[0] = 1.0
    for unit in _axis_units(dim):
        sides = [
            np.array([place.get(tuple(o), len(offsets)) for o in (offsets + sign * unit).tolist()])
            for sign in (1, -1)
        ]
        response[:-1] += 0.5 * (response[sides[0]] + response[sides[1]])
    return torch.from_numpy(response[:-1] / response[0])


def tap_variance(taps: tuple[float, ...]) -> float:
    """Return the variance of the taps as a distribution, which sets the scale of the lattice."""
    centre = len(taps) // 2
    return sum(tap * (i - centre) ** 2 for i, tap in enumerate(taps)) / sum(taps)


def _check(dim: int, radius: int, kind: str) -> None:
    check_integer(None, "dim", dim)
    check_integer(None, "radius", radius, 0)
    if kind not in ("full", "axis"):
        raise ValueError(f"Expected 'stencil' to be 'full' or 'axis' (got {kind!r})")


@cache
def _offsets(dim: int, radius: int, kind: str) -> np.ndarray:
    """Offsets ``[K, d + 1]`` in lattice keys."""
    taps = num_taps(dim, radius, kind)
    if taps > MAX_TAPS:
        instead = f"stencil='axis' ({num_taps(dim, radius, 'axis')} taps) or " * (kind == "full")
        raise ValueError(
            f"The {kind} stencil of radius {radius} in {dim} dimensions has {taps} taps, more than "
            f"can be held (at most {MAX_TAPS}); use {instead}a smaller radius"
        )
    if kind == "full":
        steps = np.array(
            [c for c in product(range(radius + 1), repeat=dim + 1) if min(c) == 0], dtype=np.int64
        )
        return (dim + 1) * steps - steps.sum(1, keepdims=True)
    rows = [np.zeros(dim + 1, dtype=np.int64)]
    for distance in range(1, radius + 1):
        for unit in _axis_units(dim):
            rows += [distance * unit, -distance * unit]
    # In one dimension the two axes are opposite.
    return np.array(list(dict.fromkeys(map(tuple, rows))), dtype=np.int64)


def _axis_units(dim: int) -> np.ndarray:
    """One step along each of the ``d + 1`` lattice axes, in keys."""
    return (dim + 1) * np.eye(dim + 1, dtype=np.int64) - 1


def _grid(dim: int, radius: int, kind: str) -> np.ndarray:
    offsets = _offsets(dim, radius, kind)
    return (offsets[:, :-1] - offsets[:, -1:]) // (dim + 1)
