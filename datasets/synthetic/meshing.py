"""Meshing of CSG solids with mesh edges on the sharp features."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from permutogeo.datasets.synthetic.csg import Solid
from permutogeo.datasets.synthetic.dual_marching_cubes import dual_marching_cubes
from permutogeo.datasets.synthetic.isotropic_remeshing import remesh
from permutogeo.datasets.synthetic.patch_mesh import (
    MeshingError,
    PatchMesh,
    double_areas,
    triangle_quality,
    unit_normals,
)
from permutogeo.typing import Array

# Spacing of the grid that estimates the extent and the area of a solid.
_PROBE = 0.09


def mesh_solid(solid: Solid, num_faces: int, reach: float = 1.8) -> PatchMesh:
    """Return a closed, outward isotropic mesh of about ``num_faces`` triangles.

    Details smaller than a triangle are lost, or raise :class:`MeshingError`.

    Args:
        solid: The solid, within ``[-reach, reach]`` along each axis.
        num_faces: Target number of triangles.
        reach: Half extent of the region that contains the solid.
    """
    low, cell, shape = _grid(solid, num_faces, reach)
    mesh = extract_mesh(solid, low, cell, shape)
    return remesh(mesh, _edge_length(double_areas(mesh.pos[mesh.face]).sum() / 2, num_faces))


def _edge_length(area: float, num_faces: int) -> float:
    """Return the side of ``num_faces`` equilateral triangles that cover an area."""
    return float(np.sqrt(area / num_faces * 4 / np.sqrt(3)))


def extract_mesh(
    solid: Solid,
    low: Array,
    cell: float,
    shape: tuple[int, int, int],
    lipschitz: float | None = None,
) -> PatchMesh:
    """Return the dual marching cubes mesh, projected onto the solid but not remeshed."""
    pos, quads, patch = dual_marching_cubes(solid, low, cell, shape, lipschitz)
    face = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
    fixed = np.zeros(len(pos), bool)
    mesh = PatchMesh(pos, face, np.tile(patch, 2), solid.surfaces, fixed)
    fitted = mesh.project(pos, np.arange(len(pos)), cell / 2, steps=10)
    if np.linalg.norm(fitted - pos, axis=1).max() > 3 * cell:
        raise MeshingError("surfaces that share a cell do not meet in it")
    mesh = mesh.rebuilt(fitted, face, mesh.patch, fixed)
    _pin_singular_points(mesh, solid)
    return mesh


def _grid(solid: Solid, num_faces: int, reach: float) -> tuple[Array, float, tuple[int, int, int]]:
    """Return first point, spacing and shape of a grid around the solid.

    The spacing is below the target edge length, and 1/64 to 1/36 of the solid's extent.
    """
    axis = np.arange(-reach, reach + _PROBE, _PROBE)
    points = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1)
    inside = (solid(points.reshape(-1, 3))[0] < 0).reshape(points.shape[:3])
    if not inside.any():
        raise MeshingError("the solid is empty")
    # Averaged over directions, a plane crosses 3/2 grid edges per unit square.
    area = 2 / 3 * _PROBE**2 * sum(np.diff(inside, axis=k).sum() for k in range(3))
    low, high = points[inside].min(axis=0) - 1.5 * _PROBE, points[inside].max(axis=0) + 1.5 * _PROBE
    size = float((high - low).max())
    cell = float(np.clip(0.6 * _edge_length(area, num_faces), size / 64, size / 36))
    nx, ny, nz = (np.ceil((high - low) / cell).astype(int) + 1).tolist()
    return low, cell, (nx, ny, nz)


def _pin_singular_points(mesh: PatchMesh, solid: Solid) -> None:
    """Move a vertex to each singular point on the boundary, such as an apex, and fix it."""
    for point in solid.singular_points:
        if abs(solid(point[None] + 1e-9)[0][0]) < 1e-6:
            nearest = int(np.linalg.norm(mesh.pos - point, axis=1).argmin())
            mesh.pos[nearest], mesh.fixed[nearest] = point, True


def check_mesh(mesh: PatchMesh, solid: Solid) -> None:
    """Raise :class:`MeshingError` unless the mesh is manifold, well shaped and on the solid."""
    corner, outward = mesh.pos[mesh.face], mesh.surface_normals(np.arange(len(mesh.face)))
    shape = triangle_quality(corner, outward)
    if shape.min() < 0.06 or np.mean(shape < 0.35) > 0.02:
        raise MeshingError("some triangles are thin or inverted")
    if (unit_normals(corner) * outward).sum(axis=1).min() < 0.8:
        raise MeshingError("some surfaces are too curved for triangles of this size")
    away = np.abs(solid(corner.mean(axis=1))[0]).max()
    if away > 0.35 * mesh.edge_length.mean():
        raise MeshingError("some triangles do not lie on the solid")
    if len(mesh.pos) != count_vertex_fans(mesh):
        raise MeshingError("some vertices are not manifold")


def count_vertex_fans(mesh: PatchMesh) -> int:
    """Return the number of closed triangle fans: one per vertex for a manifold mesh."""
    face, (first, second) = mesh.face, mesh.edges.faces.T
    rows, columns = [], []
    for end in mesh.edges.ends.T:
        rows.append(3 * first + (face[first] == end[:, None]).argmax(axis=1))
        columns.append(3 * second + (face[second] == end[:, None]).argmax(axis=1))
    pairs = np.concatenate(rows), np.concatenate(columns)
    graph = csr_matrix((np.ones(len(pairs[0]), bool), pairs), (face.size, face.size))
    return int(connected_components(graph, directed=False)[0])
