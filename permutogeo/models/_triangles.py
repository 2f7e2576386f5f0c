"""The triangles of a mesh as pieces of a surface."""

from __future__ import annotations

import torch
from torch import Tensor

from permutogeo.models._vertex_update import VertexUpdate
from permutogeo.transforms._mesh import face_geometry, mean_edge_length


class Triangles:
    """What :class:`permutogeo.models.MeshDenoiser` asks of a mesh.

    Args:
        pos: Positions, ``[V, 3]``.
        corner: The vertices of each triangle, ``[3, T]``.
    """

    steps = 30

    def __init__(self, pos: Tensor, corner: Tensor):
        self.corner = corner
        self.spacing = float(mean_edge_length(pos, corner))
        self._update = VertexUpdate(corner, len(pos))

    def measure(self, pos: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Normals, centers and areas of the pieces where the vertices are at ``pos``."""
        return face_geometry(pos, self.corner)

    def breadth(self, pos: Tensor) -> Tensor:
        """The least height of each triangle."""
        a, b, c = pos[self.corner]
        longest = torch.stack([b - a, c - b, a - c]).square().sum(dim=2).amax(dim=0).sqrt()
        double_area = torch.linalg.vector_norm(torch.linalg.cross(b - a, c - a), dim=1)
        return double_area / longest.clamp(min=1e-12)

    def neighbors(self) -> Tensor:
        """Pairs of triangles with an edge in common, ``[2, P]``."""
        corner = self.corner
        ends = torch.cat([corner, corner.roll(-1, 0)]).view(2, -1).sort(dim=0).values
        key, order = (ends[0] * (corner.max() + 1) + ends[1]).sort(stable=True)
        owner = order % corner.size(1)
        pairs = torch.stack([owner[:-1], owner[1:]])
        return pairs[:, (key[1:] == key[:-1]) & (pairs[0] != pairs[1])]

    def smooth(self, pos: Tensor, iterations: int) -> Tensor:
        """Positions smoothed without regard to edges."""
        return self._update.smooth(pos, iterations)

    def fit(self, pos: Tensor, normal: Tensor, iterations: int) -> Tensor:
        """Positions moved so that the pieces have the normals ``normal``."""
        return self._update(pos, normal, iterations)
