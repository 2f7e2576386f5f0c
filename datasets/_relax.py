"""Vertices of a :class:`Patchwork` moved apart evenly, along its surfaces and creases."""

from __future__ import annotations

import numpy as np

from permutogeo.data._fields import Array
from permutogeo.datasets._patchwork import (
    CORNER,
    CREASE,
    HEALTHY,
    Patchwork,
    double_area,
    quality,
    unit_normal,
)


def relax(mesh: Patchwork, length: float, careful: bool = True) -> Patchwork:
    """Moves vertices to the middle of their neighbors, along their surfaces and creases.

    Where not ``careful``, faces may turn over: a mesh that has such already comes out of it better.
    """
    target = _ring_centers(mesh) if careful else _mean_along(mesh, mesh.edges.ends)
    rank = mesh.rank
    along = _mean_along(mesh, mesh.edges.ends[mesh.is_crease])
    target[rank == CREASE] = along[rank == CREASE]
    target[rank == CORNER] = mesh.pos[rank == CORNER]
    everywhere = np.arange(len(mesh.pos))
    pos = mesh.fit(mesh.pos + 0.7 * (target - mesh.pos), everywhere, length / 2, steps=1)
    pos = untangled(mesh, pos) if careful else pos
    return mesh.changed(pos, mesh.face, mesh.patch, mesh.fixed)


def _ring_centers(mesh: Patchwork) -> Array:
    """The center of mass of the faces around each vertex, ``[V, 3]``."""
    corner = mesh.pos[mesh.face]
    area = np.maximum(double_area(corner), 1e-12)
    moment = np.repeat(corner.mean(axis=1) * area[:, None], 3, axis=0)
    total = _sum_at(mesh.face, np.repeat(area, 3)[:, None], len(mesh.pos))
    return _sum_at(mesh.face, moment, len(mesh.pos)) / total


def _mean_along(mesh: Patchwork, ends: Array) -> Array:
    """The mean of the vertices at the other ends of some edges, ``[V, 3]``."""
    count = np.bincount(ends.reshape(-1), minlength=len(mesh.pos))[:, None]
    total = _sum_at(ends, mesh.pos[ends[:, ::-1]].reshape(-1, 3), len(mesh.pos))
    return total / np.maximum(count, 1)


def _sum_at(index: Array, rows: Array, count: int) -> Array:
    flat = index.reshape(-1)
    return np.stack([np.bincount(flat, column, count) for column in rows.T], axis=1)


def untangled(mesh: Patchwork, pos: Array) -> Array:
    """The new positions, but the old ones around faces that would turn over or become flat."""
    old = unit_normal(mesh.pos[mesh.face])
    for _ in range(5):
        corner = pos[mesh.face]
        turned = (unit_normal(corner) * old).sum(axis=1) < 0.8
        rows = np.flatnonzero(turned | (quality(corner) < HEALTHY))
        outward = mesh.outward(rows)
        least = np.minimum(quality(mesh.pos[mesh.face[rows]], outward), HEALTHY) - 1e-4
        back = mesh.face[rows[quality(corner[rows], outward) < least]].reshape(-1)
        if len(back) == 0:
            break
        pos[back] = mesh.pos[back]
    return pos
