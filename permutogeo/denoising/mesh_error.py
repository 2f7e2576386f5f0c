"""Errors of meshes and point clouds against a reference."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from permutogeo.data.geometry import face_geometry, mean_edge_length
from permutogeo.data.open3d_loader import load_open3d


def vertex_rmse(pos: Tensor, target: Tensor) -> Tensor:
    r"""Return the root mean square distance of vertices,
    :math:`\sqrt{\frac{1}{N} \sum_i \| \mathbf{p}_i - \mathbf{q}_i \|^2}`.

    Args:
        pos: Positions ``[N, 3]``.
        target: Reference positions ``[N, 3]``.

    Example:
        >>> vertex_rmse(torch.zeros(2, 3), torch.tensor([[3.0, 4.0, 0.0], [5.0, 0.0, 0.0]]))
        tensor(5., dtype=torch.float64)
    """
    return _distances(pos, target).square().mean().sqrt()


def vertex_distance(pos: Tensor, target: Tensor, face: Tensor | None = None) -> Tensor:
    """Return the mean distance of vertices.

    Args:
        pos: Positions ``[N, 3]``.
        target: Reference positions ``[N, 3]``.
        face: Faces ``[3, F]``; if given, the distance is divided by the mean edge length of the
            target.

    Example:
        >>> vertex_distance(torch.zeros(2, 3), torch.tensor([[3.0, 4.0, 0.0], [0.0, 0.0, 1.0]]))
        tensor(3., dtype=torch.float64)
    """
    distance = _distances(pos, target).mean()
    return distance if face is None else distance / mean_edge_length(target.double(), face)


def normal_angle(pos: Tensor, target: Tensor, face: Tensor) -> Tensor:
    """Return the mean angle between the face normals of two meshes, in degrees.

    Faces of area 0 in the target are ignored; faces of area 0 in the mesh alone count as 90
    degrees.

    Args:
        pos: Positions ``[N, 3]``.
        target: Reference positions ``[N, 3]``.
        face: Faces ``[3, F]`` of both.

    Example:
        >>> target = torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
        >>> pos = torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
        >>> normal_angle(pos, target, torch.tensor([[0], [1], [2]])).round(decimals=3)
        tensor(45., dtype=torch.float64)
    """
    _check(pos, target)
    normal, expected = (face_geometry(p.double(), face)[0] for p in (pos, target))
    valid = expected.any(dim=1)
    normal, expected = normal[valid], expected[valid]
    sine = torch.linalg.vector_norm(torch.linalg.cross(normal, expected), dim=1)
    angle = torch.atan2(sine, (normal * expected).sum(dim=1)).rad2deg()
    return torch.where(normal.any(dim=1), angle, 90.0).mean()


def surface_distance(pos: Tensor, target: Tensor, face: Tensor | None = None) -> Tensor:
    """Return the mean distance of points to the nearest point of a surface.

    Unlike the other errors this needs no correspondence of vertices.

    Args:
        pos: Positions ``[N, 3]``.
        target: Positions ``[M, 3]`` of the reference.
        face: Its faces ``[3, F]``; without them it is a point cloud.

    Example:
        >>> surface_distance(torch.tensor([[0.0, 0.0, 3.0], [9.0, 0.0, 0.0]]), torch.zeros(1, 3))
        tensor(6., dtype=torch.float64)
    """
    center = target.double().mean(dim=0)  # Open3D computes in single precision
    points, reference = (x.double().sub(center).cpu().numpy() for x in (pos, target))
    if face is None:
        from scipy.spatial import cKDTree

        return torch.from_numpy(cKDTree(reference).query(points)[0]).mean()
    open3d = load_open3d()
    tensor = open3d.core.Tensor
    scene = open3d.t.geometry.RaycastingScene()
    scene.add_triangles(
        tensor(reference.astype(np.float32)), tensor(face.t().cpu().numpy().astype(np.uint32))
    )
    distance = scene.compute_distance(tensor(points.astype(np.float32))).numpy()
    return torch.from_numpy(distance).double().mean()


def _distances(pos: Tensor, target: Tensor) -> Tensor:
    _check(pos, target)
    return torch.linalg.vector_norm(pos.double() - target.double(), dim=1)


def _check(pos: Tensor, target: Tensor) -> None:
    if pos.dim() != 2 or pos.size(1) != 3 or pos.shape != target.shape:
        got = f"{list(pos.shape)} and {list(target.shape)}"
        raise ValueError(f"Expected 'pos' and 'target' of the same shape [N, 3] (got {got})")
