"""Triangulation of polygons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from permutogeo.typing import Array

# Field in which readers note the number of polygons before triangulation, for from_mesh to compare
# with the number of triangles. No attribute has this name: those of faces start with "face_".
POLYGON_COUNT = "faces"


def triangulate(polygons: Array | Sequence[Array]) -> tuple[Array, Array]:
    """Return the fan triangles ``[F, 3]`` of polygons, and the polygon of each triangle ``[F]``."""
    sizes, flat = flatten(polygons)
    if flat.dtype.kind == "f":
        if (flat != np.rint(flat)).any():
            raise ValueError("face indices are no integers")
        flat = flat.astype(np.int64)
    corners, polygon = fan_corners(sizes)
    return flat.astype(np.int64)[corners], polygon


def flatten(rows: Array | Sequence[Array]) -> tuple[Array, Array]:
    """Return the lengths of ragged rows ``[P]`` and their concatenation."""
    if isinstance(rows, np.ndarray) and rows.ndim == 2:
        return np.full(len(rows), rows.shape[1]), rows.reshape(-1)
    sizes = np.array([len(row) for row in rows])
    return sizes, np.concatenate([np.asarray(row) for row in rows])


def fan_corners(sizes: Array) -> tuple[Array, Array]:
    """Return fan triangles ``[F, 3]`` as indices of corners, and the polygon of each ``[F]``.

    Args:
        sizes: Number of corners of each polygon ``[P]``; corners are numbered consecutively over
            all polygons.
    """
    if (sizes < 3).any():
        row = int((sizes < 3).argmax())
        raise ValueError(f"face {row + 1} has {sizes[row]} corners, a face has at least 3")
    start = np.cumsum(sizes) - sizes
    polygon = np.repeat(np.arange(len(sizes)), sizes - 2)
    step = np.arange(len(polygon)) - np.repeat(np.cumsum(sizes - 2) - (sizes - 2), sizes - 2)
    first = start[polygon]
    return np.stack([first, first + step + 1, first + step + 2], axis=1), polygon
