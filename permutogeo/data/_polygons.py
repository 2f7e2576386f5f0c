"""Polygons as triangles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from permutogeo.data._fields import Array


def triangulate(polygons: Array | Sequence[Array]) -> tuple[Array, Array]:
    """Fan triangles ``[F, 3]`` of polygons, and the polygon each came from ``[F]``."""
    if isinstance(polygons, np.ndarray) and polygons.ndim == 2:
        sizes = np.full(len(polygons), polygons.shape[1])
        flat = polygons.reshape(-1)
    else:
        sizes = np.array([len(polygon) for polygon in polygons])
        flat = np.concatenate([np.asarray(polygon) for polygon in polygons])
    if (sizes < 3).any():
        row = int((sizes < 3).argmax())
        raise ValueError(f"face {row} has {sizes[row]} corners, a face has at least 3")
    if flat.dtype.kind == "f":
        if (flat != np.rint(flat)).any():
            raise ValueError("face indices are no integers")
        flat = flat.astype(np.int64)
    start = np.cumsum(sizes) - sizes
    owner = np.repeat(np.arange(len(sizes)), sizes - 2)
    step = np.arange(len(owner)) - np.repeat(np.cumsum(sizes - 2) - (sizes - 2), sizes - 2)
    first = start[owner]
    corners = np.stack([first, first + step + 1, first + step + 2], axis=1)
    return flat.astype(np.int64)[corners], owner
