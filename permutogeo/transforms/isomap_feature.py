"""Intrinsic coordinates of a mesh by landmark isomap."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.data.geometry import mesh_edges, unique_edges
from permutogeo.data.require import require, require_mesh, require_pos

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Array = NDArray[np.float64]
# Distance between components on the grid, in widths of the widest one.
_SPACING = 3.0


class IsomapFeature(BaseTransform):
    r"""Adds intrinsic coordinates ``intrinsic [N, dim]`` to a mesh: the landmark isomap of its
    edge graph ("Sparse Multidimensional Scaling using Landmark Points", de Silva and Tenenbaum,
    2004).

    Geodesic distances are shortest paths over edges of Euclidean length. Landmarks are chosen by
    farthest-point sampling and embedded by classical scaling, weighted by the number of vertices
    nearest to each; all vertices follow from their distances to the landmarks. With as many
    landmarks as vertices this is the isomap of `"A Global Geometric Framework for Nonlinear
    Dimensionality Reduction" <https://doi.org/10.1126/science.290.5500.2319>`_.

    Connected components are embedded separately and placed on a grid, the largest at the origin, so
    that no filter mixes them; an isolated vertex is a component. Coordinates beyond the dimension
    of a component are 0. The sign of each axis makes it grow with the coordinate of ``pos`` that it
    correlates with most, so that similar meshes agree. Without ``face``, the graph is
    ``edge_index``.

    Args:
        dim: Number of coordinates.
        landmarks: Number of landmarks in each component.
        attr: Name of the result.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from permutogeo.transforms import IsomapFeature
        >>> data = Data(pos=torch.eye(3), face=torch.tensor([[0], [1], [2]]))
        >>> IsomapFeature(dim=2)(data).intrinsic.shape
        torch.Size([3, 2])
    """

    def __init__(self, dim: int = 4, landmarks: int = 64, attr: str = "intrinsic") -> None:
        if dim < 1:
            raise ValueError(f"IsomapFeature: Expected 'dim' >= 1 (got {dim})")
        if landmarks <= dim:
            raise ValueError(f"IsomapFeature: Expected 'landmarks' > {dim} (got {landmarks})")
        self.dim = dim
        self.landmarks = landmarks
        self.attr = attr

    def _edges(self, data: Data) -> tuple[Tensor, Tensor]:
        if "face" in data or "edge_index" not in data:
            pos, face = require_mesh(self, data)
            return pos, mesh_edges(face)
        pos, index = require_pos(self, data), require(self, data, "edge_index")
        return pos, unique_edges(index)

    def forward(self, data: Data) -> Data:
        pos, index = self._edges(data)
        points = pos.detach().cpu().double().numpy()
        if not np.isfinite(points).all():
            row = int((~np.isfinite(points).all(axis=1)).argmax())
            raise ValueError(
                f"IsomapFeature: Expected finite 'pos' (got {points[row]} in row {row})"
            )
        result = isomap(points, index.cpu().numpy(), self.dim, self.landmarks)
        data[self.attr] = torch.from_numpy(result).to(pos.device, pos.dtype)
        return data

    def __repr__(self) -> str:
        first = f"{type(self).__name__}(dim={self.dim}, landmarks={self.landmarks}"
        return first + (")" if self.attr == "intrinsic" else f", attr='{self.attr}')")


def isomap(pos: Array, index: NDArray[np.int64], dim: int, landmarks: int) -> Array:
    """Compute isomap coordinates ``[N, dim]`` of a graph with undirected edges ``index [2, E]``."""
    from scipy.sparse.csgraph import connected_components

    if len(pos) == 0:
        return np.zeros((0, dim))
    graph = _graph(pos, index)
    number, label = connected_components(graph, directed=False)
    if number == 1:
        return _embed(graph, pos, dim, landmarks)
    return _embed_each(graph, pos, label, dim, landmarks)


def _embed_each(
    graph: csr_matrix, pos: Array, label: NDArray[np.int32], dim: int, landmarks: int
) -> Array:
    """Embed each connected component, given by ``label``, and place them on a grid."""
    size = np.bincount(label)
    rank = np.empty(len(size), np.int64)  # the largest component is number 0
    rank[np.argsort(-size, kind="stable")] = np.arange(len(size))
    order = np.argsort(rank[label], kind="stable")
    graph = graph[order][:, order]  # each component is a range of rows
    size = np.sort(size)[::-1]
    ends = np.cumsum(size)
    out = np.zeros((len(pos), dim))
    width = 0.0
    for start, end in zip(ends - size, ends, strict=True):
        if end - start == 1:
            break  # only single vertices follow
        rows = order[start:end]
        out[rows] = _embed(graph[start:end, start:end], pos[rows], dim, landmarks)
        width = max(width, float(np.ptp(out[rows], axis=0).max()))
    cell = _SPACING * width or float(np.ptp(pos, axis=0).max()) or 1.0
    return out + cell * _grid(len(size), dim)[rank[label]]


def _graph(pos: Array, index: NDArray[np.int64]) -> csr_matrix:
    """Return the symmetric sparse matrix of edge lengths."""
    from scipy.sparse import csr_matrix

    length = np.linalg.norm(pos[index[0]] - pos[index[1]], axis=1)
    # csgraph treats an edge of length 0 as missing.
    length = np.maximum(length, np.finfo(np.float64).tiny)
    row, column = np.concatenate([index, index[::-1]], axis=1)
    return csr_matrix((np.concatenate([length, length]), (row, column)), (len(pos), len(pos)))


def _embed(graph: csr_matrix, pos: Array, dim: int, landmarks: int) -> Array:
    """Embed one connected graph by landmark scaling."""
    distance, chosen = _distances(graph, landmarks)
    squared = distance**2
    # The weight of a landmark is the share of vertices that are nearest to it.
    share = np.bincount(distance.argmin(axis=0), minlength=len(chosen)) / distance.shape[1]
    root = np.sqrt(share)[:, None]
    mean = squared[:, chosen] @ share
    scalar = -0.5 * (squared[:, chosen] - mean - mean[:, None] + share @ mean)
    values, vectors = np.linalg.eigh(root * (scalar + scalar.T) / 2 * root.T)
    values, vectors = values[::-1][:dim], vectors[:, ::-1][:, :dim]
    real = values > 1e-9 * max(values[0], 0.0)  # other axes are rounding or not Euclidean
    scale = np.where(real, 1.0 / np.sqrt(np.where(real, values, 1.0)), 0.0)
    found = -0.5 * (squared - mean[:, None]).T @ (root * vectors * scale)
    out = np.zeros((len(pos), dim))
    out[:, : found.shape[1]] = found * _signs(found, pos)
    return out


def _signs(found: Array, pos: Array) -> Array:
    """Return the sign of each axis that makes it grow with the most correlated coordinate."""
    covariance = (pos - pos.mean(axis=0)).T @ found
    leading = covariance[np.abs(covariance).argmax(axis=0), np.arange(found.shape[1])]
    return np.where(leading < 0, -1.0, 1.0)


def _distances(graph: csr_matrix, landmarks: int) -> tuple[Array, NDArray[np.int64]]:
    """Return shortest paths ``[L, N]`` from landmarks by farthest-point sampling, and these."""
    from scipy.sparse.csgraph import dijkstra

    count = graph.shape[0]
    if count <= landmarks:
        return dijkstra(graph), np.arange(count)
    rows = np.empty((landmarks, count))
    chosen = np.empty(landmarks, np.int64)
    nearest = dijkstra(graph, indices=0)  # finds the first landmark
    for i in range(landmarks):
        chosen[i] = nearest.argmax()
        rows[i] = dijkstra(graph, indices=chosen[i])
        nearest = rows[i].copy() if i == 0 else np.minimum(nearest, rows[i])
    return rows, chosen


def _grid(number: int, dim: int) -> Array:
    """Return the first ``number`` cells of the smallest grid cube that has as many."""
    side = math.ceil(round(number ** (1.0 / dim), 9))
    return np.stack([np.arange(number) // side**axis % side for axis in range(dim)], axis=1)
