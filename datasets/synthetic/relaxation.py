"""Tangential relaxation of a :class:`PatchMesh` along its surfaces and creases."""

from __future__ import annotations

import numpy as np

from permutogeo.datasets.synthetic.patch_mesh import (
    CORNER,
    CREASE,
    GOOD_QUALITY,
    PatchMesh,
    double_areas,
    triangle_quality,
    unit_normals,
)
from permutogeo.typing import Array


def relax(mesh: PatchMesh, length: float, careful: bool = True) -> PatchMesh:
    """Move vertices toward the centroid of their neighbors, along surfaces and creases.

    Unless ``careful``, triangles may be inverted, so that a mesh with inverted ones can recover.
    """
    target = _ring_centroids(mesh) if careful else _neighbor_means(mesh, mesh.edges.ends)
    kind = mesh.vertex_type
    along = _neighbor_means(mesh, mesh.edges.ends[mesh.is_crease])
    target[kind == CREASE] = along[kind == CREASE]
    target[kind == CORNER] = mesh.pos[kind == CORNER]
    everywhere = np.arange(len(mesh.pos))
    pos = mesh.project(mesh.pos + 0.7 * (target - mesh.pos), everywhere, length / 2, steps=1)
    pos = revert_inverted(mesh, pos) if careful else pos
    return mesh.rebuilt(pos, mesh.face, mesh.patch, mesh.fixed)


def _ring_centroids(mesh: PatchMesh) -> Array:
    """Return the area centroid of the faces around each vertex, ``[V, 3]``."""
    corner = mesh.pos[mesh.face]
    area = np.maximum(double_areas(corner), 1e-12)
    moment = np.repeat(corner.mean(axis=1) * area[:, None], 3, axis=0)
    total = _sum_at(mesh.face, np.repeat(area, 3)[:, None], len(mesh.pos))
    return _sum_at(mesh.face, moment, len(mesh.pos)) / total


def _neighbor_means(mesh: PatchMesh, ends: Array) -> Array:
    """Return the mean of the neighbors of each vertex along some edges, ``[V, 3]``."""
    count = np.bincount(ends.reshape(-1), minlength=len(mesh.pos))[:, None]
    total = _sum_at(ends, mesh.pos[ends[:, ::-1]].reshape(-1, 3), len(mesh.pos))
    return total / np.maximum(count, 1)


def _sum_at(index: Array, rows: Array, count: int) -> Array:
    flat = index.reshape(-1)
    return np.stack([np.bincount(flat, column, count) for column in rows.T], axis=1)


def revert_inverted(mesh: PatchMesh, pos: Array) -> Array:
    """Return new positions, but the old ones around faces that they would invert or flatten."""
    old = unit_normals(mesh.pos[mesh.face])
    for _ in range(5):
        corner = pos[mesh.face]
        turned = (unit_normals(corner) * old).sum(axis=1) < 0.8
        rows = np.flatnonzero(turned | (triangle_quality(corner) < GOOD_QUALITY))
        outward = mesh.surface_normals(rows)
        least = (
            np.minimum(triangle_quality(mesh.pos[mesh.face[rows]], outward), GOOD_QUALITY) - 1e-4
        )
        back = mesh.face[rows[triangle_quality(corner[rows], outward) < least]].reshape(-1)
        if len(back) == 0:
            break
        pos[back] = mesh.pos[back]
    return pos
