"""Triangles of a mesh as surface elements."""

from __future__ import annotations

import torch
from torch import Tensor

from permutogeo.data.geometry import face_geometry, mean_edge_length
from permutogeo.denoising.vertex_update import VertexUpdate


class TriangleElements:
    """Implements :class:`~permutogeo.denoising.cascade.Elements` for a mesh.

    Args:
        pos: Positions, ``[V, 3]``.
        face: Faces, ``[3, F]``.
    """

    steps = 30

    def __init__(self, pos: Tensor, face: Tensor):
        self.face = face
        self.spacing = float(mean_edge_length(pos, face))
        self._update = VertexUpdate(face, len(pos))

    def geometry(self, pos: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return face normals, centroids and areas at given positions."""
        return face_geometry(pos, self.face)

    def width(self, pos: Tensor) -> Tensor:
        """Return the least height of each triangle."""
        a, b, c = pos[self.face]
        longest = torch.stack([b - a, c - b, a - c]).square().sum(dim=2).amax(dim=0).sqrt()
        double_area = torch.linalg.vector_norm(torch.linalg.cross(b - a, c - a), dim=1)
        return double_area / longest.clamp(min=1e-12)

    def neighbors(self) -> Tensor:
        """Return pairs of triangles that share an edge, ``[2, P]``."""
        face = self.face
        ends = torch.cat([face, face.roll(-1, 0)]).view(2, -1).sort(dim=0).values
        key, order = (ends[0] * (face.max() + 1) + ends[1]).sort(stable=True)
        owner = order % face.size(1)
        pairs = torch.stack([owner[:-1], owner[1:]])
        return pairs[:, (key[1:] == key[:-1]) & (pairs[0] != pairs[1])]

    def smooth(self, pos: Tensor, iterations: int) -> Tensor:
        """Return positions after Taubin smoothing."""
        return self._update.smooth(pos, iterations)

    def fit(self, pos: Tensor, normal: Tensor, iterations: int) -> Tensor:
        """Return positions moved to fit given face normals."""
        return self._update(pos, normal, iterations)
