"""Errors of point clouds against clean points and against the surface that they were taken from.

The measures of PU-Net ("PU-Net: Point Cloud Upsampling Network", Yu et al., 2018) as computed by
"Score-Based Point Cloud Denoising" (Luo and Hu, 2021): squared distances, in units of the bounding
sphere of the reference.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from permutogeo.data.open3d_loader import load_open3d
from permutogeo.typing import Array

# Points near a face of which one is the nearest to it.
NEAR = 24


def chamfer_distance(pos: Tensor, target: Tensor) -> Tensor:
    """Return the squared Chamfer distance between two clouds.

    The mean squared distance of a point to the nearest point of the other cloud, added for both
    directions, with the target scaled into the unit sphere.

    Args:
        pos: Positions ``[N, 3]``.
        target: Positions ``[M, 3]`` of the reference.

    Example:
        >>> square = torch.tensor([[-1.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, -1, 0]])
        >>> chamfer_distance(square + torch.tensor([0.0, 0.0, 0.1]), square)
        tensor(0.0200, dtype=torch.float64)
    """
    center, radius = bounding_sphere(target)
    moved, reference = (((x.double() - center) / radius).cpu().numpy() for x in (pos, target))
    there = cKDTree(reference).query(moved)[0]
    back = cKDTree(moved).query(reference)[0]
    return torch.tensor(np.square(there).mean() + np.square(back).mean())


def point_mesh_distance(pos: Tensor, target: Tensor, face: Tensor) -> Tensor:
    """Return the squared distance between a cloud and a mesh.

    The mean squared distance of a point to the mesh plus that of a face to the nearest point, with
    the mesh scaled into the unit sphere.

    Args:
        pos: Positions ``[N, 3]``.
        target: Vertices ``[V, 3]`` of the mesh.
        face: Its faces ``[3, F]``.
    """
    center, radius = bounding_sphere(target)
    points, vertex = (((x.double() - center) / radius).cpu().numpy() for x in (pos, target))
    corner = vertex[face.cpu().numpy().T]
    there = surface_distances(points, vertex, face)
    count = min(NEAR, len(points))
    index = cKDTree(points).query(corner.mean(axis=1), np.arange(1, count + 1))[1]
    back = _to_triangles(points[index], corner).min(axis=1)
    return torch.tensor(np.square(there).mean() + np.square(back).mean())


def bounding_sphere(pos: Tensor) -> tuple[Tensor, Tensor]:
    """Return the center of the bounding box and the largest distance from it."""
    low, high = pos.double().amin(dim=0), pos.double().amax(dim=0)
    center = (low + high) / 2
    return center, torch.linalg.vector_norm(pos.double() - center, dim=1).max().clamp(min=1e-300)


def surface_distances(points: Array, vertex: Array, face: Tensor) -> Array:
    """Return the distance of each point to a mesh, by Open3D."""
    open3d = load_open3d()
    tensor = open3d.core.Tensor
    scene = open3d.t.geometry.RaycastingScene()
    scene.add_triangles(
        tensor(vertex.astype(np.float32)), tensor(face.t().cpu().numpy().astype(np.uint32))
    )
    found: Array = scene.compute_distance(tensor(points.astype(np.float32))).numpy()
    return found.astype(np.float64)


def _to_triangles(points: Array, corner: Array) -> Array:
    """Return distances of points ``[F, k, 3]`` to triangles ``[F, 3, 3]``.

    The nearest point is in the triangle's inside, or on one of its edges.
    """
    best = np.full(points.shape[:2], np.inf)
    for i in range(3):
        start, side = corner[:, i, None], corner[:, (i + 1) % 3, None] - corner[:, i, None]
        along = ((points - start) * side).sum(2) / np.maximum((side * side).sum(2), 1e-300)
        foot = start + along.clip(0, 1)[..., None] * side
        best = np.minimum(best, np.linalg.norm(points - foot, axis=2))
    normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
    inside = np.ones(points.shape[:2], dtype=bool)
    for i in range(3):
        side = corner[:, (i + 1) % 3] - corner[:, i]
        inward = np.cross(normal, side)[:, None]
        inside &= ((points - corner[:, i, None]) * inward).sum(2) > 0
    height = np.abs(((points - corner[:, :1]) * normal[:, None]).sum(2))
    return np.where(inside, np.minimum(best, height), best)
