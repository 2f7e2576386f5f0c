"""How far a mesh is from another with the same faces."""

from __future__ import annotations

import torch
from torch import Tensor

from permutogeo.transforms._mesh import face_geometry, mean_edge_length


def vertex_rmse(pos: Tensor, target: Tensor) -> Tensor:
    r"""The root mean square distance of vertices,
    :math:`\sqrt{\frac{1}{N} \sum_i \| \mathbf{p}_i - \mathbf{q}_i \|^2}`.

    Args:
        pos: Positions ``[N, 3]``.
        target: The positions where they should be.

    Example:
        >>> vertex_rmse(torch.zeros(2, 3), torch.tensor([[3.0, 4.0, 0.0], [5.0, 0.0, 0.0]]))
        tensor(5., dtype=torch.float64)
    """
    return _distances(pos, target).square().mean().sqrt()


def vertex_distance(pos: Tensor, target: Tensor, face: Tensor | None = None) -> Tensor:
    """The mean distance of vertices.

    Args:
        pos: Positions ``[N, 3]``.
        target: The positions where they should be.
        face: Faces ``[3, F]``, to divide by the mean edge length of the target.

    Example:
        >>> vertex_distance(torch.zeros(2, 3), torch.tensor([[3.0, 4.0, 0.0], [0.0, 0.0, 1.0]]))
        tensor(3., dtype=torch.float64)
    """
    distance = _distances(pos, target).mean()
    return distance if face is None else distance / mean_edge_length(target.double(), face)


def normal_angle(pos: Tensor, target: Tensor, face: Tensor) -> Tensor:
    """The mean angle between the face normals of two meshes in degrees, each face counted once.

    Faces of area 0 in the target have no normal and do not count; one that has collapsed in the
    mesh alone counts as 90 degrees.

    Args:
        pos: Positions ``[N, 3]``.
        target: The positions where they should be.
        face: The faces ``[3, F]`` of both.

    Example:
        >>> target = torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
        >>> pos = torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
        >>> normal_angle(pos, target, torch.tensor([[0], [1], [2]])).round(decimals=3)
        tensor(45., dtype=torch.float64)
    """
    _check(pos, target)
    normal, expected = (face_geometry(p.double(), face)[0] for p in (pos, target))
    counts = expected.any(dim=1)
    normal, expected = normal[counts], expected[counts]
    sine = torch.linalg.vector_norm(torch.linalg.cross(normal, expected), dim=1)
    angle = torch.atan2(sine, (normal * expected).sum(dim=1)).rad2deg()
    return torch.where(normal.any(dim=1), angle, 90.0).mean()


def _distances(pos: Tensor, target: Tensor) -> Tensor:
    _check(pos, target)
    return torch.linalg.vector_norm(pos.double() - target.double(), dim=1)


def _check(pos: Tensor, target: Tensor) -> None:
    if pos.dim() != 2 or pos.size(1) != 3 or pos.shape != target.shape:
        got = f"{list(pos.shape)} and {list(target.shape)}"
        raise ValueError(f"Expected 'pos' and 'target' of one shape [N, 3] (got {got})")
