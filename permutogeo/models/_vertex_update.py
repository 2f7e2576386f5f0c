"""Positions that fit given normals."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from permutogeo.incidence import Incidence

# Noise folds triangles over, and a folded one fits its plane as well as the flat one: the first
# steps spread the vertices of those whose normal is further than this cosine from the wanted one.
FOLDED = 0.5
UNFOLDING_STEPS = 5
UNFOLDING_RATE = 0.3


class VertexUpdate:
    r"""Moves vertices so that triangles get the normals that they should have, after "Fast and
    Effective Feature-Preserving Mesh Denoising" (Sun et al., 2007).

    .. math::
        \mathbf{v} \leftarrow \mathbf{v} + \frac{1}{|T(v)|} \sum_{t \in T(v)} \mathbf{n}_t
        \mathbf{n}_t^\top (\mathbf{c}_t - \mathbf{v})

    where :math:`\mathbf{c}_t` are centroids. In the first steps the vertices of triangles that lie
    folded over also go a part of the way to the mean of their neighbors. Sums over triangles are a
    splat, centroids a slice, of the incidence of triangles and vertices.

    Args:
        corner: The vertices of each triangle.
        num_vertices: How many vertices there are; those without triangles stay.

    Shapes:
        - corner: :math:`(3, T)` int64
    """

    def __init__(self, corner: Tensor, num_vertices: int):
        self.corner = corner
        ones = torch.ones(corner.size(1), 3, device=corner.device)
        vertex = corner.t().to(torch.int32).contiguous()
        self.incidence = Incidence(vertex, ones, num_vertices, complete=True)
        count = self.incidence.splat(ones[:, :1])
        self.used, self.count = count > 0, count.clamp(min=1)
        self._neighbors = _neighbors(corner, num_vertices)

    def __call__(self, pos: Tensor, normal: Tensor, iterations: int) -> Tensor:
        """Positions ``[V, 3]``, moved to fit normals ``[T, 3]`` of length 1 (or 0: no wish)."""
        outer = (normal.unsqueeze(2) * normal.unsqueeze(1)).flatten(1)
        matrix = self._mean(outer).view(-1, 3, 3)
        for step in range(iterations):
            if step < UNFOLDING_STEPS:
                pos = self._unfold(pos, normal)
            height = (normal * self.centers(pos)).sum(dim=1, keepdim=True)
            pos = pos + self._mean(height * normal) - (matrix @ pos.unsqueeze(2)).squeeze(2)
        return pos

    def centers(self, pos: Tensor) -> Tensor:
        """Centroids of the triangles, ``[T, 3]``."""
        return self.incidence.slice(pos) / 3

    def smooth(self, pos: Tensor, iterations: int) -> Tensor:
        """Positions ``[V, 3]`` smoothed without shrinking, after "A Signal Processing Approach to
        Fair Surface Design" (Taubin, 1995)."""
        for rate in (0.5, -0.53) * iterations:
            pos = pos + rate * (self._around(pos) - pos)
        return pos

    def _unfold(self, pos: Tensor, normal: Tensor) -> Tensor:
        a, b, c = pos[self.corner]
        area = torch.linalg.cross(b - a, c - a)
        length = torch.linalg.vector_norm(area, dim=1)
        folded = (area * normal).sum(dim=1) < FOLDED * length
        touched = self.incidence.splat(folded.unsqueeze(1).to(pos.dtype)) > 0
        return torch.where(touched, pos + UNFOLDING_RATE * (self._around(pos) - pos), pos)

    def _around(self, pos: Tensor) -> Tensor:
        """The mean of the neighbors, each as often as it shares a triangle."""
        return torch.where(self.used, self._neighbors.to(pos.dtype) @ pos / (2 * self.count), pos)

    def _mean(self, x: Tensor) -> Tensor:
        return self.incidence.splat(x) / self.count


def _neighbors(corner: Tensor, num_vertices: int) -> Tensor:
    """How many triangles each two vertices share, sparse ``[V, V]``."""
    pair = torch.cat([torch.stack([corner, corner.roll(turn, 0)]).flatten(1) for turn in (1, 2)], 1)
    count = torch.ones(pair.size(1), device=corner.device)
    size = (num_vertices, num_vertices)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls the layout a beta
        return torch.sparse_coo_tensor(pair, count, size).coalesce().to_sparse_csr()
