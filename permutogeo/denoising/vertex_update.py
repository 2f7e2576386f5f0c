"""Update of vertex positions to fit given face normals."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from scipy.sparse import csr_matrix, diags
from torch import Tensor

from permutogeo.data.geometry import corner_positions

# Noise folds triangles over, and a folded triangle fits its plane as well as a flat one. The first
# steps smooth the vertices of triangles whose normal is farther than this cosine from the target.
FOLDED = 0.5
UNFOLDING_STEPS = 5
UNFOLDING_RATE = 0.3
# Plain steps take hundreds to remove noise that is correlated between neighbors, while they leave
# independent noise of wrong normals out of the result. After the first steps, the correlation of
# the displacements gives the momentum of the others: from 0 at the first value to the most at the
# second.
MEASURED_STEPS = 8
CORRELATION = (0.0, 0.25)
MOST_MOMENTUM = 0.8
# Long waves are left after the steps above. Further steps have the most momentum where faces differ
# from their normals by much less than this chord (1.5 degrees). Elsewhere the normals cannot be
# right, and more steps would carry their errors over. Chords are averaged over this many steps.
AGREEMENT, AGREEMENT_STEPS = 0.026, 4
# In coarser meshes displacements correlate without noise.
FEWEST_VERTICES = 1000


class VertexUpdate:
    r"""Vertex update of "Fast and Effective Feature-Preserving Mesh Denoising" (Sun et al., 2007).

    .. math::
        \mathbf{v} \leftarrow \mathbf{v} + \frac{1}{|T(v)|} \sum_{t \in T(v)} \mathbf{n}_t
        \mathbf{n}_t^\top (\mathbf{c}_t - \mathbf{v})

    where :math:`T(v)` are the triangles at vertex :math:`v` and :math:`\mathbf{c}_t` centroids. In
    the first steps vertices of folded triangles also move toward the mean of their neighbors; if
    the noise is correlated, later steps have momentum ("Some Methods of Speeding up the Convergence
    of Iteration Methods", Polyak, 1964). Means over corners, triangles and neighbors are products
    with sparse matrices.

    Args:
        face: Vertices of each triangle.
        num_vertices: Number of vertices; vertices without triangles stay in place.

    Shapes:
        - face: :math:`(3, T)` int64
    """

    def __init__(self, face: Tensor, num_vertices: int):
        self.face = face
        self._incidence = _incidence(face, num_vertices)
        self.used = torch.from_numpy(np.diff(self._incidence.indptr) > 0).to(face.device)
        self.used = self.used.unsqueeze(1)
        self.boundary = _boundary(face, num_vertices).unsqueeze(1)
        self._means: dict[tuple[str, torch.dtype], Tensor] = {}

    def __call__(self, pos: Tensor, normal: Tensor, iterations: int) -> Tensor:
        """Return positions ``[V, 3]`` moved to fit normals ``[T, 3]`` of length 1 (0: ignored)."""
        matrix = self._projection(normal)
        start, last, momentum = pos, torch.zeros_like(pos), 0.0
        for step in range(iterations):
            if step < UNFOLDING_STEPS:
                pos = self._unfold(pos, normal)
            last = self._shift(pos, normal, matrix) + momentum * last
            pos = pos + last
            if step + 1 == MEASURED_STEPS and len(pos) >= FEWEST_VERTICES:
                low, high = CORRELATION
                share = (self.correlation(pos - start) - low) / (high - low)
                momentum = MOST_MOMENTUM * min(max(share, 0.0), 1.0)
        return pos

    def settle(self, pos: Tensor, normal: Tensor, iterations: int) -> Tensor:
        """Return fitted positions after further steps where the faces agree with their normals."""
        a, b, c = corner_positions(pos, self.face)
        found = torch.nn.functional.normalize(torch.linalg.cross(b - a, c - a), dim=1)
        square = (found - normal).square().sum(dim=1, keepdim=True)
        around = self.average(self.triangle_mean(square), AGREEMENT_STEPS)
        weight = torch.exp(-around / AGREEMENT**2)
        matrix, last = self._projection(normal), torch.zeros_like(pos)
        for _ in range(iterations):
            last = weight * (self._shift(pos, normal, matrix) + MOST_MOMENTUM * last)
            pos = pos + last
        return pos

    def _projection(self, normal: Tensor) -> Tensor:
        """Return the mean of the projections onto the normals of each vertex, ``[V, 3, 3]``."""
        outer = (normal.unsqueeze(2) * normal.unsqueeze(1)).flatten(1)
        return self.triangle_mean(outer).view(-1, 3, 3)

    def _shift(self, pos: Tensor, normal: Tensor, matrix: Tensor) -> Tensor:
        """Return one step of all vertices."""
        height = (normal * self.centers(pos)).sum(dim=1, keepdim=True)
        return self.triangle_mean(height * normal) - (matrix @ pos.unsqueeze(2)).squeeze(2)

    def correlation(self, displacement: Tensor) -> float:
        """Return the correlation of displacements ``[V, 3]`` between neighbors."""
        product = (displacement * self.neighbor_mean(displacement)).sum()
        return float(product / displacement.square().sum().clamp(min=1e-30))

    def correlations(self, x: Tensor, part: Tensor) -> Tensor:
        """Return the correlation of values ``[V, C]`` between neighbors in each part, ``[P]``."""
        product = (x * self.neighbor_mean(x)).sum(dim=1)
        pair = torch.stack([product, x.square().sum(dim=1)], 1).double()
        total = pair.new_zeros(int(part.max()) + 1, 2).index_add(0, part, pair)
        return (total[:, 0] / total[:, 1].clamp(min=1e-30)).to(x.dtype)

    def smooth(self, pos: Tensor, iterations: int) -> Tensor:
        """Return positions ``[V, 3]`` smoothed without shrinking, after "A Signal Processing
        Approach to Fair Surface Design" (Taubin, 1995)."""
        for rate in (0.5, -0.53) * iterations:
            pos = pos + rate * (self.neighbor_mean(pos) - pos)
        return pos

    def average(self, x: Tensor, iterations: int) -> Tensor:
        """Return values of vertices ``[V, C]`` averaged over neighborhoods that grow by a step."""
        for _ in range(iterations):
            x = 0.5 * (x + self.neighbor_mean(x))
        return x

    def _unfold(self, pos: Tensor, normal: Tensor) -> Tensor:
        a, b, c = corner_positions(pos, self.face)
        area = torch.linalg.cross(b - a, c - a)
        length = torch.linalg.vector_norm(area, dim=1)
        folded = (area * normal).sum(dim=1) < FOLDED * length
        # The mean of the neighbors of a boundary vertex lies inside: it would shrink the surface.
        share = self.triangle_mean(folded.unsqueeze(1).to(pos.dtype))
        touched = (share > 0) & ~self.boundary
        return torch.where(touched, pos + UNFOLDING_RATE * (self.neighbor_mean(pos) - pos), pos)

    def centers(self, pos: Tensor) -> Tensor:
        """Return the centroids of the triangles, ``[T, 3]``."""
        return self._mean("corners", pos.dtype) @ pos

    def triangle_mean(self, x: Tensor) -> Tensor:
        """Return the mean ``[V, C]`` over the triangles at each vertex of values ``[T, C]``."""
        return self._mean("triangles", x.dtype) @ x

    def neighbor_mean(self, pos: Tensor) -> Tensor:
        """Return the mean of the neighbors, weighted by the number of shared triangles."""
        return self._mean("neighbors", pos.dtype) @ pos

    def _mean(self, kind: str, dtype: torch.dtype) -> Tensor:
        """Return the sparse matrix of a mean, made on first use."""
        key = (kind, dtype)
        if key not in self._means:
            self._means[key] = _row_means(self._links(kind), dtype, self.face.device)
        return self._means[key]

    def _links(self, kind: str) -> csr_matrix:
        """Return the matrix whose rows have the weights of a mean."""
        incidence = self._incidence
        if kind == "triangles":
            return incidence
        if kind == "corners":
            return incidence.T.tocsr()
        shared, count = incidence @ incidence.T, np.diff(incidence.indptr)
        # A vertex shares its triangles with itself; one without triangles is its own neighbor.
        shared = shared + diags(np.where(count > 0, -count, 1).astype(np.float32), format="csr")
        shared.eliminate_zeros()
        return shared


def _boundary(face: Tensor, num_vertices: int) -> Tensor:
    """Return whether each vertex is on an edge of one triangle, ``[V]``."""
    ends = torch.cat([face, face.roll(-1, 0)]).view(2, -1).sort(dim=0).values
    edge, count = (
        (ends[0] * num_vertices + ends[1]).sort().values.unique_consecutive(return_counts=True)
    )
    single = edge[count == 1]
    found = torch.zeros(num_vertices, dtype=torch.bool, device=face.device)
    found[torch.cat([single // num_vertices, single % num_vertices])] = True
    return found


def _incidence(face: Tensor, num_vertices: int) -> csr_matrix:
    """Return how often each vertex is a corner of each triangle, ``[V, T]``."""
    count = face.size(1)
    corner = face.t().reshape(-1).cpu().numpy().astype(np.int32)
    start = np.arange(0, 3 * count + 1, 3, dtype=np.int32)
    ones = np.ones(len(corner), dtype=np.float32)
    return csr_matrix((ones, corner, start), (count, num_vertices)).T.tocsr()


def _row_means(matrix: csr_matrix, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a matrix whose rows are divided by their sums, in torch."""
    matrix.sort_indices()
    total = torch.from_numpy(np.asarray(matrix.sum(axis=1))).to(dtype).squeeze(1)
    size = torch.from_numpy(np.diff(matrix.indptr)).long()
    value = torch.from_numpy(matrix.data).to(dtype) / total.repeat_interleave(size)
    start, column = (torch.from_numpy(i.astype(np.int32)) for i in (matrix.indptr, matrix.indices))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch warns that the CSR layout is in beta
        return torch.sparse_csr_tensor(start, column, value, list(matrix.shape), device=device)
