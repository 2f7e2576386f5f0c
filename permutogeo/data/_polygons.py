"""Polygons as triangles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from permutogeo.data._fields import Array


def triangulate(polygons: Array | Sequence[Array]) -> tuple[Array, Array]:
    """Fan triangles ``[F, 3]`` of polygons, and the polygon each came from ``[F]``."""
    sizes, flat = flatten(polygons)
    if flat.dtype.kind == "f":
        if (flat != np.rint(flat)).any():
            raise ValueError("face indices are no integers")
        flat = flat.astype(np.int64)
    corners, owner = fan(sizes)
    return flat.astype(np.int64)[corners], owner


def flatten(rows: Array | Sequence[Array]) -> tuple[Array, Array]:
    """How long each row is ``[P]``, and all that they hold, one after the other."""
    if isinstance(rows, np.ndarray) and rows.ndim == 2:
        return np.full(len(rows), rows.shape[1]), rows.reshape(-1)
    sizes = np.array([len(row) for row in rows])
    return sizes, np.concatenate([np.asarray(row) for row in rows])


def fan(sizes: Array) -> tuple[Array, Array]:
    """Triangles ``[F, 3]`` of the corners of polygons, which are numbered one after the other, and
    the polygon each came from ``[F]``."""
    if (sizes < 3).any():
        row = int((sizes < 3).argmax())
        raise ValueError(f"face {row + 1} has {sizes[row]} corners, a face has at least 3")
    start = np.cumsum(sizes) - sizes
    owner = np.repeat(np.arange(len(sizes)), sizes - 2)
    step = np.arange(len(owner)) - np.repeat(np.cumsum(sizes - 2) - (sizes - 2), sizes - 2)
    first = start[owner]
    return np.stack([first, first + step + 1, first + step + 2], axis=1), owner
