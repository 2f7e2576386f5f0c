"""Random points of a mesh, independent or at even distances."""

from __future__ import annotations

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from permutogeo.data.geometry import face_geometry
from permutogeo.typing import Array

# Candidates per point of an even sample.
CANDIDATES = 5
# Distance between even points, over the side of a point's share of the area: what a maximal
# Poisson disk sample of the area has.
DISK = 0.82


def sample_surface(
    pos: Tensor, face: Tensor, count: int, rng: np.random.Generator, even: bool = False
) -> tuple[Tensor, Tensor]:
    """Return points of a mesh ``[count, 3]``, and their normals, in double precision.

    Args:
        pos: Vertices ``[V, 3]``.
        face: Faces ``[3, F]``.
        count: Number of points.
        rng: Random numbers.
        even: Draw a Poisson disk sample, whose points keep a distance from one another, instead of
            independent points.

    Example:
        >>> corner, face = torch.eye(3), torch.tensor([[0], [1], [2]])
        >>> points, normal = sample_surface(corner, face, 100, np.random.default_rng(0))
        >>> float(points.sum(dim=1).sub(1).abs().max()) < 1e-9
        True
    """
    vertex = pos.double()
    normal, _, area = face_geometry(vertex, face)
    share = np.cumsum(area.numpy() / float(area.sum()))
    many = count * CANDIDATES if even else count
    pick = np.searchsorted(share, rng.random(many)).clip(max=face.size(1) - 1)
    weight = -np.log(1 - rng.random((3, many, 1)))
    weight /= weight.sum(axis=0)
    points = (vertex.numpy()[face.numpy()[:, pick]] * weight).sum(axis=0)
    if even:
        distance = DISK * float(area.sum() / count) ** 0.5
        keep = _disk_sample(points, distance, count, rng)
        points, pick = points[keep], pick[keep]
    return torch.from_numpy(points), normal[torch.from_numpy(pick)]


def _disk_sample(points: Array, distance: float, count: int, rng: np.random.Generator) -> Array:
    """Return ``count`` indices of points, as far as possible at the given distance.

    Points are accepted in random order unless an accepted one is near; rounds at shorter
    distances fill what is missing.
    """
    accepted = np.zeros(0, dtype=np.int64)
    left = np.arange(len(points))
    while True:
        pairs = cKDTree(points[left]).query_pairs(distance, output_type="ndarray")
        accepted = np.concatenate([accepted, left[_independent(len(left), pairs)]])
        if len(accepted) >= count:
            return rng.permutation(accepted)[:count] if len(accepted) > count else accepted
        distance *= 0.9
        gap = cKDTree(points[accepted]).query(points)[0]
        left = np.flatnonzero(gap > distance)


def _independent(count: int, pairs: Array) -> Array:
    """Return a maximal set of points of which no two form a pair, the first ones preferred."""
    first, second = pairs.min(axis=1), pairs.max(axis=1)
    chosen, open_ = np.zeros(count, dtype=bool), np.ones(count, dtype=bool)
    while open_.any():
        alive = open_[first] & open_[second]
        first, second = first[alive], second[alive]
        blocked = np.zeros(count, dtype=bool)
        blocked[second] = True  # an earlier open neighbor decides first
        new = open_ & ~blocked
        chosen |= new
        open_ &= ~new
        open_[second[new[first]]] = False
    return chosen
