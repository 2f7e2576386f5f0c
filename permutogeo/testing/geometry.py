"""Geometry of the lattice: stencils, and the enclosing simplex of a feature, in float64 NumPy.

The algorithm is that of Adams et al., "Fast High-Dimensional Filtering Using the Permutohedral
Lattice" (2010). `d` is the feature dimension; lattice keys carry all `d + 1` coordinates.
"""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TAPS = (0.5, 1.0, 0.5)


def axes(dim: int) -> Ints:
    """Steps from a lattice point to its neighbor along each axis, [d+1, d+1]."""
    return (dim + 1) * np.eye(dim + 1, dtype=np.int64) - 1


def stencil(dim: int, radius: int) -> Ints:
    """Offsets [K, d+1] of all lattice points within `radius`, the centre first."""
    coefficients = itertools.product(range(radius + 1), repeat=dim + 1)
    # The axes sum to zero, so each point has one representation whose minimum is zero.
    return np.array([c for c in coefficients if min(c) == 0], dtype=np.int64) @ axes(dim)


def axis_stencil(dim: int, radius: int = 1) -> Ints:
    """Offsets [K, d+1]: the centre, then +axis 0, -axis 0, +axis 1, ..., ring after ring."""
    rings = [
        sign * distance * axis
        for distance in range(1, radius + 1)
        for axis in axes(dim)
        for sign in (1, -1)
    ]
    centre = np.zeros(dim + 1, dtype=np.int64)
    # In one dimension the two axes are opposite; a dict drops repeats and keeps the order.
    unique = dict.fromkeys(tuple(offset.tolist()) for offset in [centre, *rings])
    return np.array(list(unique), dtype=np.int64)


def elevate(feature: ArrayLike, tap_variance: float = 0.5) -> Floats:
    """Map features [N, d] onto the hyperplane of vectors [N, d+1] that sum to zero."""
    feature = np.asarray(feature, dtype=np.float64)
    dim = feature.shape[1]
    axis = np.arange(dim)
    scale = (dim + 1) * np.sqrt(1 / 6 + tap_variance) / np.sqrt((axis + 1) * (axis + 2))
    scaled = feature * scale
    elevated = np.zeros((len(feature), dim + 1))
    elevated[:, :dim] = np.cumsum(scaled[:, ::-1], axis=1)[:, ::-1]
    elevated[:, 1:] -= (axis + 1) * scaled
    return elevated


def embed(feature: ArrayLike, tap_variance: float = 0.5) -> tuple[Ints, Floats]:
    """Corner keys [N, d+1, d+1] and barycentric weights [N, d+1]; corner k has remainder k."""
    elevated = elevate(feature, tap_variance)
    size = elevated.shape[1]
    origin, rank = _enclosing_simplex(elevated)
    remainder = np.arange(size)[:, None]
    step = np.where(rank[:, None, :] < size - remainder, remainder, remainder - size)
    return origin[:, None, :] + step, _barycentric(elevated, origin, rank)


def _enclosing_simplex(elevated: Floats) -> tuple[Ints, Ints]:
    """Remainder-0 corner and rank of each coordinate's differential, both [N, d+1]."""
    size = elevated.shape[1]
    # Halves always go down: np.rint would order equal fractions by parity instead of by axis.
    multiple = np.ceil(elevated / size - 0.5).astype(np.int64)
    differential = elevated - size * multiple
    # Rank 0 is the largest differential; a stable sort gives ties to the lower axis.
    rank = np.argsort(np.argsort(-differential, axis=1, kind="stable"), axis=1)
    # Rounding may have left the hyperplane; the coordinates that moved the most move back.
    rank += multiple.sum(axis=1, keepdims=True)
    wrap = (rank < 0).astype(np.int64) - (rank >= size)
    return size * (multiple + wrap), rank + size * wrap


def _barycentric(elevated: Floats, origin: Ints, rank: Ints) -> Floats:
    """Weights [N, d+1] of the corners of remainder 0..d: the gaps between sorted differentials."""
    size = elevated.shape[1]
    rising = np.empty_like(elevated)
    np.put_along_axis(rising, size - 1 - rank, (elevated - origin) / size, axis=1)
    # Rounding can leave -1e-16 on a face.
    return np.maximum(np.diff(rising, axis=1, prepend=rising[:, -1:] - 1), 0)


def gaussian_stencil(dim: int, radius: int) -> Floats:
    """The blur's impulse response on a full lattice, at the stencil's points: [K], centre 1."""
    response = {(0,) * (dim + 1): 1.0}
    for axis in axes(dim).tolist():
        spread: dict[tuple[int, ...], float] = defaultdict(float)
        for (key, value), (step, tap) in itertools.product(
            response.items(), zip((-1, 0, 1), TAPS, strict=True)
        ):
            spread[tuple(k + step * a for k, a in zip(key, axis, strict=True))] += tap * value
        response = spread
    found = [response.get(tuple(offset), 0.0) for offset in stencil(dim, radius).tolist()]
    return np.array(found) / found[0]
