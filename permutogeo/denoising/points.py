"""Points of a cloud as surface elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree
from scipy.spatial import cKDTree
from torch import Tensor

Array = np.ndarray[Any, Any]

# Number of neighbors of a normal.
NUM_NEIGHBORS = 16
# Area of an equilateral triangle of edge 1: gives clouds the length unit of meshes.
TRIANGLE_AREA = 3**0.5 / 4
# Bandwidth of the weights between points by their normals: the squared chord of 20 degrees.
AGREEMENT = 0.12


class PointElements:
    """Implements :class:`~permutogeo.denoising.cascade.Elements` for a point cloud.

    Normals are those of the plane through the nearest neighbors. They are oriented consistently
    along a minimum spanning tree of the neighborhood graph ("Surface Reconstruction from
    Unorganized Points", Hoppe et al., 1992), outward from the centroid of each component.

    Args:
        pos: Positions, ``[V, 3]`` float64.
        normal: Known normals that give the orientation, ``[V, 3]``.
    """

    steps = 10

    def __init__(self, pos: Tensor, normal: Tensor | None = None):
        count = min(NUM_NEIGHBORS, len(pos) - 1)
        host = pos.cpu().numpy()
        distance, index = cKDTree(host).query(host, count + 1, workers=torch.get_num_threads())
        index, distance = index.reshape(len(pos), -1), distance.reshape(len(pos), -1)
        self.index = torch.from_numpy(index[:, 1:]).to(pos.device)
        self.area = torch.from_numpy(np.pi * distance[:, -1] ** 2 / max(count, 1)).to(pos)
        self.spacing = float(self.area.mean() / TRIANGLE_AREA) ** 0.5
        known = None if normal is None else normal.to(pos)
        self._orientation = (
            _orient(self._plane_normals(pos), pos, self.index) if known is None else known
        )

    def geometry(self, pos: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return normals, positions and areas of the points."""
        normal = self._plane_normals(pos)
        wrong = (normal * self._orientation.to(pos.dtype)).sum(dim=1, keepdim=True) < 0
        return torch.where(wrong, -normal, normal), pos, self.area.to(pos.dtype)

    def width(self, pos: Tensor) -> Tensor:
        """Return the side of a square of each point's area, in units of the spacing."""
        return self.area.to(pos.dtype).sqrt() / self.spacing

    def neighbors(self) -> Tensor:
        """Return each point with its nearest neighbor, ``[2, V]``."""
        nearest = self.index[:, :1].reshape(-1)
        return torch.stack([torch.arange(len(nearest), device=nearest.device), nearest])

    def smooth(self, pos: Tensor, iterations: int) -> Tensor:
        """Return positions after Taubin smoothing."""
        for rate in (0.5, -0.53) * iterations:
            pos = pos + rate * (pos[self.index].mean(dim=1) - pos)
        return pos

    def fit(self, pos: Tensor, normal: Tensor, iterations: int) -> Tensor:
        """Return positions moved along their normals to fit the normals of their neighbors.

        The segment between two neighbors becomes orthogonal to the mean of their normals, which
        holds for points on a sphere: curved surfaces are preserved.
        """
        other = normal[self.index]
        own = normal.unsqueeze(1)
        weight = torch.exp((other - own).square().sum(dim=2) / -AGREEMENT)
        weight = weight / (1 + weight.sum(dim=1, keepdim=True))
        mean_normal = (other + own) * (weight / 2).unsqueeze(2)
        for _ in range(iterations):
            height = ((pos[self.index] - pos.unsqueeze(1)) * mean_normal).sum(dim=(1, 2))
            pos = pos + height.unsqueeze(1) * normal
        return pos

    def _plane_normals(self, pos: Tensor) -> Tensor:
        """Return unoriented normals of the planes through the neighborhoods."""
        around = torch.cat([pos.unsqueeze(1), pos[self.index]], 1)
        around = around - around.mean(dim=1, keepdim=True)
        return torch.linalg.eigh(around.transpose(1, 2) @ around).eigenvectors[:, :, 0]


def _orient(normal: Tensor, pos: Tensor, index: Tensor) -> Tensor:
    """Return normals oriented consistently over each component of the neighborhood graph."""
    count, num_neighbors = index.shape
    row = np.repeat(np.arange(count), num_neighbors)
    column = index.cpu().numpy().reshape(-1)
    vector = normal.cpu().numpy()
    cosine = (vector[row] * vector[column]).sum(axis=1)
    # A sparse graph drops weights of 0: they start above it.
    graph = csr_matrix((1.001 - np.abs(cosine), (row, column)), (count, count))
    sign, component = _signs(minimum_spanning_tree(graph), vector)
    signed = vector * sign[:, None]
    place = pos.cpu().numpy()
    size = np.bincount(component)
    centroid = np.stack([np.bincount(component, axis) / size for axis in place.T], 1)
    outward = np.bincount(component, ((place - centroid[component]) * signed).sum(axis=1))
    signed[outward[component] < 0] *= -1
    return torch.from_numpy(signed).to(normal)


def _signs(tree: csr_matrix, normal: Array) -> tuple[Array, Array]:
    """Return the signs that orient normals along a spanning forest, and the tree of each."""
    count, component = connected_components(tree, directed=False)
    first = np.unique(component, return_index=True)[1]
    root = len(normal)  # a common root of all trees, for one traversal
    links = csr_matrix((np.ones(count), (np.full(count, root), first)), (root + 1, root + 1))
    tree.resize(root + 1, root + 1)
    parent = breadth_first_order(tree + links, root, directed=False)[1].astype(np.int64)
    parent[root] = root
    extended = np.concatenate([normal, np.zeros((1, 3))])
    sign = np.where((extended * extended[parent]).sum(axis=1) < 0, -1.0, 1.0)
    while (parent != root).any():  # product of the signs up to the root, by pointer doubling
        sign, parent = sign * sign[parent], parent[parent]
    return sign[:root], component
