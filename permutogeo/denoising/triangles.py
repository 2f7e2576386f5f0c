"""Triangles of a mesh as surface elements."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from permutogeo.data.geometry import corner_positions, face_geometry, mean_edge_length
from permutogeo.denoising.vertex_update import VertexUpdate


class TriangleElements:
    """Triangles of a mesh, with the geometry and the filters that the cascade needs.

    Args:
        pos: Positions, ``[V, 3]``.
        face: Faces, ``[3, F]``.
    """

    steps = 30

    def __init__(self, pos: Tensor, face: Tensor):
        self.face = face
        self.spacing = float(mean_edge_length(pos, face))
        self.update = VertexUpdate(face, len(pos))
        self._neighbors: Tensor | None = None

    def geometry(self, pos: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return face normals, centroids and areas at given positions."""
        return face_geometry(pos, self.face)

    def width(self, pos: Tensor) -> Tensor:
        """Return the least height of each triangle."""
        corner = corner_positions(pos, self.face)
        a, b, c = corner
        double_area = torch.linalg.vector_norm(torch.linalg.cross(b - a, c - a), dim=1)
        return double_area / _edge_lengths(corner).amax(dim=0).clamp(min=1e-12)

    def longest_edge(self, pos: Tensor) -> Tensor:
        """Return the length of the longest edge of each triangle."""
        return _edge_lengths(corner_positions(pos, self.face)).amax(dim=0)

    def local_edge(self, pos: Tensor) -> Tensor:
        """Return the mean edge length of the triangles at each vertex, ``[V]``."""
        length = _edge_lengths(corner_positions(pos, self.face))
        return self.update.triangle_mean(length.mean(dim=0).unsqueeze(1)).squeeze(1)

    def neighbors(self) -> Tensor:
        """Return pairs of triangles that share an edge, ``[2, P]``."""
        if self._neighbors is None:
            face = self.face
            ends = torch.cat([face, face.roll(-1, 0)]).view(2, -1).sort(dim=0).values
            key, order = (ends[0] * len(self.update.used) + ends[1]).sort(stable=True)
            owner = order % face.size(1)
            pairs = torch.stack([owner[:-1], owner[1:]])
            self._neighbors = pairs[:, (key[1:] == key[:-1]) & (pairs[0] != pairs[1])]
        return self._neighbors

    @cached_property
    def part(self) -> Tensor:
        """The connected component of each vertex, ``[V]``."""
        count = len(self.update.used)
        pair = torch.cat([self.face[:2], self.face[1:]], 1).cpu().numpy()
        graph = csr_matrix((np.ones(pair.shape[1]), tuple(pair)), (count, count))
        label = connected_components(graph, directed=False)[1]
        return torch.from_numpy(label.astype(np.int64)).to(self.face.device)

    @cached_property
    def num_parts(self) -> int:
        """The number of connected components."""
        return int(self.part.max()) + 1

    def smooth(self, pos: Tensor, iterations: int) -> Tensor:
        """Return positions after Taubin smoothing."""
        return self.update.smooth(pos, iterations)

    def fit(self, pos: Tensor, normal: Tensor, iterations: int) -> Tensor:
        """Return positions moved to fit given face normals."""
        return self.update(pos, normal, iterations)


def _edge_lengths(corner: Tensor) -> Tensor:
    """Return the lengths of the edges ``[3, T]`` of triangles, given their corners."""
    return torch.linalg.vector_norm(corner - corner.roll(-1, 0), dim=2)
