"""Geometry of triangle meshes in torch; faces are ``[3, F]`` as in PyG."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def _unit(vectors: Tensor) -> Tensor:
    """Return vectors scaled to length 1; zero vectors stay 0."""
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / torch.where(length > 0, length, torch.ones_like(length))


def corner_positions(pos: Tensor, face: Tensor) -> Tensor:
    """Return the positions of the corners of faces, ``[3, F, D]``; faster than ``pos[face]``."""
    return pos.index_select(0, face.reshape(-1)).view(*face.shape, pos.size(1))


def _area_vectors(corner: Tensor) -> tuple[Tensor, Tensor]:
    """Return face normals ``[F, 3]`` of length twice the area, and these lengths ``[F, 1]``.

    Both are 0 for collinear corners.
    """
    norm = torch.linalg.vector_norm
    first, second = corner[1] - corner[0], corner[2] - corner[0]
    vectors = torch.linalg.cross(first, second)
    length = norm(vectors, dim=1, keepdim=True)
    # The cross product of parallel edges is rounding error, which must not become a unit normal.
    limit = 8 * torch.finfo(corner.dtype).eps * norm(first, dim=1) * norm(second, dim=1)
    flat = length <= limit.unsqueeze(1)
    return vectors.masked_fill(flat, 0.0), length.masked_fill(flat, 0.0)


def face_geometry(pos: Tensor, face: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute unit normals ``[F, 3]``, centroids ``[F, 3]`` and areas ``[F]`` of faces.

    Normal and area of a degenerate face are 0.

    Args:
        pos: Vertex positions ``[N, 3]``.
        face: Vertex indices ``[3, F]``.
    """
    corner = corner_positions(pos, face)
    vectors, length = _area_vectors(corner)
    normal = vectors / torch.where(length > 0, length, 1.0)
    return normal, corner.mean(dim=0), length.squeeze(1) / 2


def _corner_angles(pos: Tensor, face: Tensor) -> Tensor:
    """Return the angle at each corner ``[3, F]``; 0 beside an edge of length 0."""
    corner = pos[face]
    to_next = _unit(corner.roll(-1, 0) - corner)
    to_last = _unit(corner.roll(1, 0) - corner)
    sine = torch.linalg.vector_norm(torch.linalg.cross(to_next, to_last), dim=-1)
    return torch.atan2(sine, (to_next * to_last).sum(dim=-1))


def vertex_normals(pos: Tensor, face: Tensor, weight: str = "area") -> Tensor:
    """Compute unit normals ``[N, 3]`` of vertices: the mean over the incident faces.

    The normal of an unreferenced vertex, or of one whose faces cancel, is 0.

    Args:
        pos: Vertex positions ``[N, 3]``.
        face: Vertex indices ``[3, F]``.
        weight: Weight of a face: ``"area"``, ``"angle"`` (at the vertex) or ``"uniform"``.
    """
    vectors, _ = _area_vectors(corner_positions(pos, face))
    if weight != "area":
        vectors = _unit(vectors)
    corner = vectors.expand(3, -1, -1)
    if weight == "angle":
        corner = corner * _corner_angles(pos, face).unsqueeze(-1)
    total = torch.zeros_like(pos).index_add(0, face.reshape(-1), corner.reshape(-1, 3))
    return _unit(total)


def update_normals(data: Data) -> None:
    """Recompute the normals, face centroids and areas that ``data`` has, after ``pos`` changed.

    Attributes that ``data`` does not have (``normal``, ``face_normal``, ``face_center``,
    ``face_area``) are not added.
    """
    pos, face = data["pos"], data["face"]
    if "normal" in data:
        data["normal"] = vertex_normals(pos, face)
    names = ("face_normal", "face_center", "face_area")
    for name, value in zip(names, face_geometry(pos, face), strict=True):
        if name in data:
            data[name] = value


def unique_edges(index: Tensor) -> Tensor:
    """Return each undirected edge of ``index [2, E]`` once, lower index first, without loops."""
    index = index[:, index[0] != index[1]].sort(dim=0).values
    if index.numel() == 0:
        return index
    base = int(index.max()) + 1
    key = torch.unique(index[0] * base + index[1])  # much faster than unique columns
    return torch.stack([key // base, key % base])


def mesh_edges(face: Tensor) -> Tensor:
    """Return each edge of the faces ``[3, F]`` once, as ``[2, E]`` with the lower index first."""
    return unique_edges(torch.cat([face[[0, 1]], face[[1, 2]], face[[2, 0]]], dim=1))


def mean_edge_length(pos: Tensor, face: Tensor) -> Tensor:
    """Compute the mean length of the edges, each counted once; 0 for a mesh without edges."""
    start, end = mesh_edges(face)
    if len(start) == 0:
        return pos.new_zeros(())
    return torch.linalg.vector_norm(pos[start] - pos[end], dim=-1).mean()


def corner_matrix(face: Tensor, num_points: int) -> csr_matrix:
    """Return the sparse matrix ``[N, 3 F]`` that sums values of corners at each vertex.

    Corners are numbered as in ``face.reshape(-1)``.
    """
    from scipy.sparse import csr_matrix

    vertex = face.reshape(-1).cpu().numpy()
    corner = np.arange(len(vertex))
    return csr_matrix((np.ones(len(vertex)), (vertex, corner)), (num_points, len(vertex)))


def face_adjacency(face: Tensor, num_points: int, shared: int) -> csr_matrix:
    """Return the sparse 0/1 matrix ``[F, F]`` of faces with ``shared`` or more common vertices."""
    from scipy.sparse import csr_matrix

    count = face.size(1)
    vertex = face.t().reshape(-1).cpu().numpy()
    row = np.repeat(np.arange(count), 3)
    incidence = csr_matrix((np.ones(len(row)), (row, vertex)), (count, num_points))
    incidence.data[:] = 1  # a degenerate face shares its repeated vertex once
    graph = incidence @ incidence.T
    graph.data = (graph.data >= shared).astype(np.float64)
    return graph


def smooth_by_normals(
    pos: Tensor,
    face: Tensor,
    iterations: int,
    neighbors: str = "vertex",
    on_step: Callable[[int], None] | None = None,
) -> Tensor:
    """Smooth a mesh by mean filtering of its face normals; returns the new positions ``[N, 3]``.

    See :class:`permutogeo.transforms.SmoothNormals` for the formulas.

    Args:
        pos: Vertex positions ``[N, 3]``.
        face: Vertex indices ``[3, F]``.
        iterations: Number of iterations.
        neighbors: Neighbors of a face share a ``"vertex"`` or an ``"edge"`` with it.
        on_step: Called after each iteration with the number of finished iterations.
    """
    moved = pos.detach().cpu().double()  # many small steps
    corner = face.cpu()
    adjacency = face_adjacency(corner, len(pos), 1 if neighbors == "vertex" else 2)
    corners = corner_matrix(corner, len(pos))
    for done in range(1, iterations + 1):
        moved = _smoothing_step(moved, corner, adjacency, corners)
        if on_step is not None:
            on_step(done)
    return moved.to(pos.device, pos.dtype)


def _smoothing_step(
    pos: Tensor, face: Tensor, adjacency: csr_matrix, corners: csr_matrix
) -> Tensor:
    normal, center, area = face_geometry(pos, face)
    area = area.unsqueeze(1)
    mean = _unit(torch.from_numpy(adjacency @ (area * normal).numpy()))
    distance = ((center - pos[face]) * mean).sum(dim=-1, keepdim=True)  # [3, F, 1]
    shift = (area * distance * mean).reshape(-1, 3)
    total = torch.from_numpy(corners @ shift.numpy())
    weight = torch.from_numpy(corners @ area.repeat(3, 1).numpy())
    return pos + total / torch.where(weight > 0, weight, torch.ones_like(weight))
