"""Fewer triangles and points, so that a page with a large scan still opens."""

from __future__ import annotations

import numpy as np

from permutogeo.data._fields import Array


def _clusters(pos: Array, cell: float) -> tuple[Array, Array]:
    """One vertex for each occupied cell of a grid ``[M]``, and the cell of each vertex ``[N]``."""
    scaled = (pos - pos.min(axis=0)) / cell
    place = np.floor(scaled).astype(np.int64)
    span = place.max(axis=0) + 1
    key = (place[:, 0] * span[1] + place[:, 1]) * span[2] + place[:, 2]
    # The vertex next to the middle stands for its cell as it is: a mean would hide the noise that
    # is to be seen.
    off_center = ((scaled - place - 0.5) ** 2).sum(axis=1)
    order = np.lexsort((off_center, key))
    starts = np.diff(key[order], prepend=-1) > 0
    owner = np.empty_like(key)
    owner[order] = np.cumsum(starts) - 1
    return order[starts], owner


def coarser(pos: Array, face: Array, most: int) -> tuple[Array, Array]:
    """Vertices to keep ``[M]`` and at most ``most`` triangles among them, by vertex clustering."""
    corner = pos[face]
    sides = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    area = np.linalg.norm(sides, axis=1).sum() / 2
    extent = float(np.ptp(pos, axis=0).max())
    cell = max(float(np.sqrt(2 * area / most)), 1e-5 * extent)
    while True:
        keep, owner = _clusters(pos, cell)
        fewer = owner[face]
        kept = (fewer != np.roll(fewer, 1, axis=1)).all(axis=1)
        if kept.sum() <= most:
            return keep, fewer[kept]
        cell *= 1.05 * float(np.sqrt(kept.sum() / most))


def sample(count: int, most: int) -> Array:
    """Which points to keep: a random choice, always the same, in their order."""
    return np.sort(np.random.default_rng(0).permutation(count)[:most])
