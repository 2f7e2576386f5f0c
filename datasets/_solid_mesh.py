"""Triangle meshes of solids, with vertices and edges on the creases."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from permutogeo.data._fields import Array
from permutogeo.datasets._contour import contour
from permutogeo.datasets._patchwork import Patchwork, Tangled, double_area, quality, unit_normal
from permutogeo.datasets._remesh import remesh
from permutogeo.datasets._solids import Solid

# The distance of the points that find where a solid is, and how large.
_PROBE = 0.09


def mesh_of(solid: Solid, num_faces: int, reach: float = 1.8) -> Patchwork:
    """A closed mesh of about ``num_faces`` even triangles, turned outward.

    Details smaller than a triangle are lost, or raise :class:`Tangled`.

    Args:
        solid: The solid, no part of it farther than ``reach`` from the origin along an axis.
        num_faces: About how many triangles.
        reach: Where the solid ends at the latest.
    """
    low, cell, shape = _grid(solid, num_faces, reach)
    mesh = first_mesh(solid, low, cell, shape)
    return remesh(mesh, _edge_length(double_area(mesh.pos[mesh.face]).sum() / 2, num_faces))


def _edge_length(area: float, num_faces: int) -> float:
    """The side of that many equal triangles that cover an area."""
    return float(np.sqrt(area / num_faces * 4 / np.sqrt(3)))


def first_mesh(
    solid: Solid,
    low: Array,
    cell: float,
    shape: tuple[int, int, int],
    slope: float | None = None,
) -> Patchwork:
    """A mesh from a grid as for :func:`contour`: on the solid, but uneven."""
    pos, quads, patch = contour(solid, low, cell, shape, slope)
    face = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
    fixed = np.zeros(len(pos), bool)
    mesh = Patchwork(pos, face, np.tile(patch, 2), solid.surfaces, fixed)
    fitted = mesh.fit(pos, np.arange(len(pos)), cell / 2, steps=10)
    if np.linalg.norm(fitted - pos, axis=1).max() > 3 * cell:
        raise Tangled("surfaces that share a cell do not meet in it")
    mesh = mesh.changed(fitted, face, mesh.patch, fixed)
    _pin_tips(mesh, solid)
    return mesh


def _grid(solid: Solid, num_faces: int, reach: float) -> tuple[Array, float, tuple[int, int, int]]:
    """The first point, the step and the size of a grid around the solid.

    The step is somewhat below the length that edges will have, and a 64th to a 36th of the solid.
    """
    axis = np.arange(-reach, reach + _PROBE, _PROBE)
    points = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1)
    inside = (solid(points.reshape(-1, 3))[0] < 0).reshape(points.shape[:3])
    if not inside.any():
        raise Tangled("the solid is empty")
    # A plane crosses 3/2 edges of a grid for each square that it fills, on average over directions.
    area = 2 / 3 * _PROBE**2 * sum(np.diff(inside, axis=k).sum() for k in range(3))
    low, high = points[inside].min(axis=0) - 1.5 * _PROBE, points[inside].max(axis=0) + 1.5 * _PROBE
    size = float((high - low).max())
    cell = float(np.clip(0.6 * _edge_length(area, num_faces), size / 64, size / 36))
    nx, ny, nz = (np.ceil((high - low) / cell).astype(int) + 1).tolist()
    return low, cell, (nx, ny, nz)


def _pin_tips(mesh: Patchwork, solid: Solid) -> None:
    """Move a vertex to each point where a surface has no normal, and fix it there."""
    for tip in solid.tips:
        if abs(solid(tip[None] + 1e-9)[0][0]) < 1e-6:
            nearest = int(np.linalg.norm(mesh.pos - tip, axis=1).argmin())
            mesh.pos[nearest], mesh.fixed[nearest] = tip, True


def check(mesh: Patchwork, solid: Solid) -> None:
    """Raise :class:`Tangled` unless the mesh is sound and lies on the solid everywhere."""
    corner, outward = mesh.pos[mesh.face], mesh.outward(np.arange(len(mesh.face)))
    shape = quality(corner, outward)
    if shape.min() < 0.06 or np.mean(shape < 0.35) > 0.02:
        raise Tangled("some triangles are thin or turned over")
    if (unit_normal(corner) * outward).sum(axis=1).min() < 0.8:
        raise Tangled("some sides are too curved for triangles of this size")
    away = np.abs(solid(corner.mean(axis=1))[0]).max()
    if away > 0.35 * mesh.length.mean():
        raise Tangled("some triangles do not lie on the solid")
    if len(mesh.pos) != num_fans(mesh):
        raise Tangled("some vertices join sheets")


def num_fans(mesh: Patchwork) -> int:
    """How many closed fans of triangles there are: one for each vertex of a closed surface."""
    face, (first, second) = mesh.face, mesh.edges.faces.T
    rows, columns = [], []
    for end in mesh.edges.ends.T:
        rows.append(3 * first + (face[first] == end[:, None]).argmax(axis=1))
        columns.append(3 * second + (face[second] == end[:, None]).argmax(axis=1))
    pairs = np.concatenate(rows), np.concatenate(columns)
    graph = csr_matrix((np.ones(len(pairs[0]), bool), pairs), (face.size, face.size))
    return int(connected_components(graph, directed=False)[0])
