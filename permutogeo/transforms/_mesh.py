"""Geometry of triangle meshes in torch; faces are ``[3, F]`` as in PyG."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from permutogeo._edges import edges, mean_edge_length, unique_pairs

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = [
    "corner_angles",
    "corner_sums",
    "edges",
    "face_geometry",
    "face_graph",
    "face_vectors",
    "mean_edge_length",
    "refresh",
    "unique_pairs",
    "unit",
    "vertex_normals",
]


def unit(vectors: Tensor) -> Tensor:
    """Vectors of length 1; those of length 0 stay 0."""
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / torch.where(length > 0, length, torch.ones_like(length))


def face_vectors(pos: Tensor, face: Tensor) -> Tensor:
    """Normals of length twice the area, ``[F, 3]``; 0 where the corners lie on one line."""
    a, b, c = pos[face[0]], pos[face[1]], pos[face[2]]
    vectors = torch.linalg.cross(b - a, c - a)
    norm = torch.linalg.vector_norm
    # Parallel edges give rounding, not 0, and a direction made of it would become a unit normal.
    limit = 8 * torch.finfo(pos.dtype).eps * norm(b - a, dim=1) * norm(c - a, dim=1)
    flat = norm(vectors, dim=1) <= limit
    return vectors.masked_fill(flat.unsqueeze(1), 0.0)


def face_geometry(pos: Tensor, face: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Unit normals ``[F, 3]``, centroids ``[F, 3]`` and areas ``[F]``; degenerate faces have 0."""
    vectors = face_vectors(pos, face)
    area = torch.linalg.vector_norm(vectors, dim=-1) / 2
    return unit(vectors), pos[face].mean(dim=0), area


def corner_angles(pos: Tensor, face: Tensor) -> Tensor:
    """The angle at each corner, ``[3, F]``; 0 beside an edge of length 0."""
    corner = pos[face]
    to_next = unit(corner.roll(-1, 0) - corner)
    to_last = unit(corner.roll(1, 0) - corner)
    sine = torch.linalg.vector_norm(torch.linalg.cross(to_next, to_last), dim=-1)
    return torch.atan2(sine, (to_next * to_last).sum(dim=-1))


def vertex_normals(pos: Tensor, face: Tensor, weight: str = "area") -> Tensor:
    """Mean normals of the faces around each vertex ``[N, 3]``; 0 where there are none."""
    vectors = face_vectors(pos, face)
    if weight != "area":
        vectors = unit(vectors)
    corner = vectors.expand(3, -1, -1)
    if weight == "angle":
        corner = corner * corner_angles(pos, face).unsqueeze(-1)
    total = torch.zeros_like(pos).index_add(0, face.reshape(-1), corner.reshape(-1, 3))
    return unit(total)


def corner_sums(face: Tensor, num_points: int) -> csr_matrix:
    """The matrix ``[N, 3 F]`` that sums over the corners at each vertex, corners as in ``face``."""
    from scipy.sparse import csr_matrix

    vertex = face.reshape(-1).cpu().numpy()
    corner = np.arange(len(vertex))
    return csr_matrix((np.ones(len(vertex)), (vertex, corner)), (num_points, len(vertex)))


def face_graph(face: Tensor, num_points: int, shared: int) -> csr_matrix:
    """Ones where two faces have at least ``shared`` vertices in common, ``[F, F]``."""
    from scipy.sparse import csr_matrix

    count = face.size(1)
    vertex = face.t().reshape(-1).cpu().numpy()
    row = np.repeat(np.arange(count), 3)
    incidence = csr_matrix((np.ones(len(row)), (row, vertex)), (count, num_points))
    incidence.data[:] = 1  # a degenerate face has a vertex twice, and shares it once
    graph = incidence @ incidence.T
    graph.data = (graph.data >= shared).astype(np.float64)
    return graph


def refresh(data: Data) -> None:
    """Compute anew the normals, centroids and areas that ``data`` has, after ``pos`` moved."""
    pos, face = data["pos"], data["face"]
    if "normal" in data:
        data["normal"] = vertex_normals(pos, face)
    names = ("face_normal", "face_center", "face_area")
    for name, value in zip(names, face_geometry(pos, face), strict=True):
        if name in data:
            data[name] = value
