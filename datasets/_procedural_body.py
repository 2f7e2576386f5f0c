"""A human-like body generated in code."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np
from torch_geometric.data import Data

from permutogeo.data import from_mesh
from permutogeo.data._fields import Array
from permutogeo.datasets._body_parts import body_parts
from permutogeo.datasets._patchwork import Patchwork, Tangled
from permutogeo.datasets._remesh import remesh
from permutogeo.datasets._solid_mesh import first_mesh, num_fans
from permutogeo.datasets._solids import Leaf


def procedural_body(seed: int | Sequence[int], resolution: int = 128) -> Data:
    r"""A closed human-like surface with random proportions in a random pose.

    Trunk, head and limbs are capsules with two radii, :math:`d_k` their distances, joined to the
    surface where

    .. math::
        -w \log \sum_k \exp(-d_k(p) / w) = 0

    with a width :math:`w` of 1.4 cm; the mesh has even triangles, one piece and no handle.

    Args:
        seed: The same seed gives the same body.
        resolution: How many cells of a grid span the body's height; at the default a body has
            about 10,000 vertices, and four times as many at twice the resolution.

    Returns:
        ``pos`` in meters, upright along the second axis and facing along the third, and ``face``.

    Example:
        >>> from permutogeo.datasets import procedural_body
        >>> body = procedural_body(seed=0, resolution=48)
        >>> bool(body.pos[:, 1].max() - body.pos[:, 1].min() > 1.2)
        True
    """
    if resolution < 32:
        raise ValueError(f"procedural_body: Expected 'resolution' of 32 or more (got {resolution})")
    numbers = [seed] if isinstance(seed, int) else list(seed)
    for attempt in count():  # where limbs touch, the surface has a handle
        parts = body_parts(np.random.default_rng([*numbers, attempt]))
        try:
            mesh = _mesh(BlendedCapsules(*parts), resolution)
            break
        except Tangled:
            continue
    pos = mesh.pos - [0, mesh.pos[:, 1].min(), 0]
    return from_mesh(pos, mesh.face)


def _mesh(surface: BlendedCapsules, resolution: int) -> Patchwork:
    low, high = surface.bounds()
    cell = float(high[1] - low[1]) / resolution
    low = low - 2.5 * cell
    nx, ny, nz = (np.ceil((high - low) / cell).astype(int) + 4).tolist()
    mesh = first_mesh(Leaf(surface), low, cell, (nx, ny, nz), slope=1.0)
    mesh = remesh(mesh, 1.12 * cell, rounds=4)
    if len(mesh.pos) - len(mesh.edges.ends) + len(mesh.face) != 2 or num_fans(mesh) != len(
        mesh.pos
    ):
        raise Tangled("the body has handles")
    return mesh


class BlendedCapsules:
    """The smooth union of capsules with two radii, as a distance that is negative inside.

    Args:
        start: One end of each capsule, ``[K, 3]``.
        end: The other, ``[K, 3]``.
        radius: The radii at both, ``[K, 2]``.
        width: How far seams are rounded.
    """

    def __init__(self, start: Array, end: Array, radius: Array, width: float = 0.014):
        self.start, self.radius, self.width = start, radius, width
        self.along = end - start
        self.square = np.maximum((self.along**2).sum(axis=1), 1e-12)
        self.widening = radius[:, 1] - radius[:, 0]

    def bounds(self) -> tuple[Array, Array]:
        """The least and largest coordinates that the surface may have."""
        ends = np.concatenate([self.start, self.start + self.along])
        reach = self.radius.T.reshape(-1, 1) + self.width * np.log(len(self.start))
        return (ends - reach).min(axis=0), (ends + reach).max(axis=0)

    def _distances(self, points: Array) -> tuple[Array, Array, Array]:
        """The place along each capsule's axis, and the distances from axis and surface."""
        offset = (self.start * self.along).sum(axis=1)
        across = points @ self.along.T - offset
        place = np.clip(across / self.square, 0, 1)
        norm = (points**2).sum(axis=1, keepdims=True) + (self.start**2).sum(axis=1)
        square = norm - 2 * points @ self.start.T + place * (place * self.square - 2 * across)
        distance = np.sqrt(np.maximum(square, 1e-16))
        return place, distance, distance - self.radius[:, 0] - place * self.widening

    def __call__(self, points: Array) -> Array:
        return -self.width * logsumexp(-self._distances(points)[2] / self.width)

    def value_and_slope(self, points: Array) -> tuple[Array, Array]:
        """The distance ``[N]`` and its slope ``[N, 3]``."""
        place, from_axis, distance = self._distances(points)
        value = -self.width * logsumexp(-distance / self.width)
        share = np.exp((value[:, None] - distance) / self.width)
        pull = share / from_axis
        slope = points * pull.sum(axis=1, keepdims=True)
        slope -= pull @ self.start + (pull * place) @ self.along
        inner = (place > 0) & (place < 1)
        return value, slope - (share * inner * self.widening / self.square) @ self.along


def logsumexp(x: Array) -> Array:
    """Of each row, without overflow."""
    largest = x.max(axis=1, keepdims=True)
    return np.log(np.exp(x - largest).sum(axis=1)) + largest[:, 0]
