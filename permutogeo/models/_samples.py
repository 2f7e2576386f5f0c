"""The points of a cloud as pieces of a surface."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree
from scipy.spatial import cKDTree
from torch import Tensor

Array = np.ndarray[Any, Any]

# Neighbors that make a normal.
NEAR = 16
# The area of an equilateral triangle of edge 1, so that samples count like triangles.
TRIANGLE = 3**0.5 / 4
# Samples pull on each other as far as their normals agree: the square of a chord of 20 degrees.
AGREEMENT = 0.12


class Samples:
    """What :class:`permutogeo.models.MeshDenoiser` asks of a point cloud.

    Normals are those of the plane through the nearest neighbors, turned to one side along a
    spanning tree of neighbors whose normals agree best ("Surface Reconstruction from Unorganized
    Points", Hoppe et al., 1992), which faces away from the middle.

    Args:
        pos: Positions, ``[V, 3]`` float64.
        normal: Normals that tell the sides, ``[V, 3]``, where they are known.
    """

    steps = 10

    def __init__(self, pos: Tensor, normal: Tensor | None = None):
        near = min(NEAR, len(pos) - 1)
        host = pos.cpu().numpy()
        distance, index = cKDTree(host).query(host, near + 1, workers=torch.get_num_threads())
        index, distance = index.reshape(len(pos), -1), distance.reshape(len(pos), -1)
        self.index = torch.from_numpy(index[:, 1:]).to(pos.device)
        self.area = torch.from_numpy(np.pi * distance[:, -1] ** 2 / max(near, 1)).to(pos)
        self.spacing = float(self.area.mean() / TRIANGLE) ** 0.5
        known = None if normal is None else normal.to(pos)
        self._side = _orient(self._plane(pos), pos, self.index) if known is None else known

    def measure(self, pos: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Normals, positions and areas of the samples."""
        normal = self._plane(pos)
        wrong = (normal * self._side.to(pos.dtype)).sum(dim=1, keepdim=True) < 0
        return torch.where(wrong, -normal, normal), pos, self.area.to(pos.dtype)

    def breadth(self, pos: Tensor) -> Tensor:
        """The side of a square of each sample's area, in units of the spacing."""
        return self.area.to(pos.dtype).sqrt() / self.spacing

    def neighbors(self) -> Tensor:
        """Each sample with its nearest, ``[2, V]``."""
        nearest = self.index[:, :1].reshape(-1)
        return torch.stack([torch.arange(len(nearest), device=nearest.device), nearest])

    def smooth(self, pos: Tensor, iterations: int) -> Tensor:
        """Positions smoothed without regard to edges and without shrinking."""
        for rate in (0.5, -0.53) * iterations:
            pos = pos + rate * (pos[self.index].mean(dim=1) - pos)
        return pos

    def fit(self, pos: Tensor, normal: Tensor, iterations: int) -> Tensor:
        """Positions moved along their normals until these are normal to the way to a neighbor.

        Between points of a sphere that is the mean of both normals, so that curved surfaces stay.
        """
        other = normal[self.index]
        own = normal.unsqueeze(1)
        weight = torch.exp((other - own).square().sum(dim=2) / -AGREEMENT)
        weight = weight / (1 + weight.sum(dim=1, keepdim=True))
        middle = (other + own) * (weight / 2).unsqueeze(2)
        for _ in range(iterations):
            height = ((pos[self.index] - pos.unsqueeze(1)) * middle).sum(dim=(1, 2))
            pos = pos + height.unsqueeze(1) * normal
        return pos

    def _plane(self, pos: Tensor) -> Tensor:
        """Normals of either side, of the plane through each sample's neighborhood."""
        around = torch.cat([pos.unsqueeze(1), pos[self.index]], 1)
        around = around - around.mean(dim=1, keepdim=True)
        return torch.linalg.eigh(around.transpose(1, 2) @ around).eigenvectors[:, :, 0]


def _orient(normal: Tensor, pos: Tensor, index: Tensor) -> Tensor:
    """Normals that look to one side over each connected part of the neighborhood graph."""
    count, near = index.shape
    row = np.repeat(np.arange(count), near)
    column = index.cpu().numpy().reshape(-1)
    vector = normal.cpu().numpy()
    cosine = (vector[row] * vector[column]).sum(axis=1)
    # The graph drops weights of 0, so that they start above it.
    graph = csr_matrix((1.001 - np.abs(cosine), (row, column)), (count, count))
    sign, part = _signs(minimum_spanning_tree(graph), vector)
    signed = vector * sign[:, None]
    place = pos.cpu().numpy()
    size = np.bincount(part)
    middle = np.stack([np.bincount(part, axis) / size for axis in place.T], 1)
    outward = np.bincount(part, ((place - middle[part]) * signed).sum(axis=1))
    signed[outward[part] < 0] *= -1
    return torch.from_numpy(signed).to(normal)


def _signs(tree: csr_matrix, normal: Array) -> tuple[Array, Array]:
    """The sign that turns each normal to its parent's side in a forest, and the tree of each."""
    count, part = connected_components(tree, directed=False)
    first = np.unique(part, return_index=True)[1]
    root = len(normal)  # a parent of all trees, so that one pass goes through them
    links = csr_matrix((np.ones(count), (np.full(count, root), first)), (root + 1, root + 1))
    tree.resize(root + 1, root + 1)
    parent = breadth_first_order(tree + links, root, directed=False)[1].astype(np.int64)
    parent[root] = root
    extended = np.concatenate([normal, np.zeros((1, 3))])
    sign = np.where((extended * extended[parent]).sum(axis=1) < 0, -1.0, 1.0)
    while (parent != root).any():  # the product of the signs on the way up, twice as far each time
        sign, parent = sign * sign[parent], parent[parent]
    return sign[:root], part
