"""Closed triangle meshes segmented into patches, each on one implicit surface.

Smooth vertices lie on the surface of their patch, crease vertices on the intersection of two
surfaces, corners on that of three or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from permutogeo.datasets.synthetic.csg import Surface
from permutogeo.typing import Array

SMOOTH, CREASE, CORNER = range(3)
# Triangles below this quality must not become worse.
GOOD_QUALITY = 0.2


class MeshingError(ValueError):
    """The mesh is not a closed manifold, or does not reach the surfaces of the solid."""


@dataclass(frozen=True)
class Edges:
    """Unique edges of a closed mesh.

    The first face of edge ``(a, b)`` is ``(a, b, c)``, the second ``(b, a, d)``, and
    ``opposite`` holds ``(c, d)``.
    """

    ends: Array  # [E, 2]
    faces: Array  # [E, 2]
    opposite: Array  # [E, 2]

    @classmethod
    def of(cls, face: Array) -> Edges:
        start, end, third = (np.roll(face, -k, axis=1).reshape(-1) for k in range(3))
        key = np.minimum(start, end) * (int(face.max()) + 1) + np.maximum(start, end)
        sides = [np.flatnonzero(start < end), np.flatnonzero(start > end)]
        first, second = (side[np.argsort(key[side])] for side in sides)
        whole = len(first) == len(second) and np.array_equal(key[first], key[second])
        if not whole or (np.diff(key[first]) == 0).any():
            raise MeshingError("an edge has not two faces")
        return cls(
            np.stack([start[first], end[first]], axis=1),
            np.stack([first // 3, second // 3], axis=1),
            np.stack([third[first], third[second]], axis=1),
        )


@dataclass
class PatchMesh:
    """Vertices ``pos [V, 3]``, triangles ``face [F, 3]`` and their surfaces ``patch [F]``.

    ``fixed [V]`` marks vertices that do not move.
    """

    pos: Array
    face: Array
    patch: Array
    surfaces: Sequence[Surface]
    fixed: Array
    _edges: Edges | None = field(default=None, repr=False)

    @property
    def edges(self) -> Edges:
        if self._edges is None:
            self._edges = Edges.of(self.face)
        return self._edges

    def rebuilt(self, pos: Array, face: Array, patch: Array, fixed: Array) -> PatchMesh:
        """Return another mesh on the same surfaces."""
        return PatchMesh(pos, face, patch, self.surfaces, fixed)

    @property
    def is_crease(self) -> Array:
        """Whether each edge lies between two patches, ``[E]``."""
        sides = self.patch[self.edges.faces]
        return sides[:, 0] != sides[:, 1]

    @property
    def vertex_type(self) -> Array:
        """``SMOOTH``, ``CREASE`` or ``CORNER`` for each vertex, ``[V]``."""
        count = np.bincount(self.edges.ends[self.is_crease].reshape(-1), minlength=len(self.pos))
        kind = np.where(count == 0, SMOOTH, np.where(count == 2, CREASE, CORNER))
        return np.where(self.fixed, CORNER, kind)

    @property
    def edge_length(self) -> Array:
        """Length of each edge, ``[E]``."""
        start, end = self.pos[self.edges.ends].swapaxes(0, 1)
        return np.linalg.norm(end - start, axis=1)

    def surface_normals(self, rows: Array) -> Array:
        """Return the unit normals of the surfaces at the centroids of faces, ``[R, 3]``."""
        middle = self.pos[self.face[rows]].mean(axis=1)
        patch = self.patch[rows]
        normal = np.empty_like(middle)
        for k in np.unique(patch):
            on = patch == k
            normal[on] = value_and_gradient(self.surfaces[k], middle[on])[1]
        return normal / np.linalg.norm(normal, axis=1, keepdims=True)

    def project(self, pos: Array, vertices: Array, reach: float, steps: int = 3) -> Array:
        """Project ``vertices`` at ``pos [R, 3]`` onto all surfaces that they belong to, ``[R, 3]``.

        Uses minimum-norm Newton steps no longer than ``reach``. Fixed vertices stay.
        """
        row_of = np.full(len(self.pos), -1)
        row_of[vertices] = np.arange(len(vertices))
        row_of[self.fixed] = -1
        member = row_of[self.face] * len(self.surfaces) + self.patch[:, None]
        row, surface = np.divmod(np.unique(member[member >= 0]), len(self.surfaces))
        for _ in range(steps):
            step = _newton_steps(pos, row, surface, self.surfaces, reach)
            pos = pos + step
            if np.abs(step).max(initial=0.0) < 1e-9 * reach:
                break
        return pos


def value_and_gradient(surface: Surface, points: Array) -> tuple[Array, Array]:
    """Return the value ``[N]`` and the gradient ``[N, 3]`` of an implicit function.

    Calls the function's own method of this name if it has one; otherwise uses finite differences.
    """
    exact = getattr(surface, "value_and_gradient", None)
    if exact is not None:
        return exact(points)
    step = 1e-6
    shifts = step * np.concatenate([np.zeros((1, 3)), np.eye(3)])
    value = surface((points + shifts[:, None]).reshape(-1, 3)).reshape(4, -1)
    return value[0], (value[1:] - value[0]).T / step


def _cross(corner: Array) -> Array:
    u, v = corner[..., 1, :] - corner[..., 0, :], corner[..., 2, :] - corner[..., 0, :]
    (ux, uy, uz), (vx, vy, vz) = np.moveaxis(u, -1, 0), np.moveaxis(v, -1, 0)
    return np.stack([uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx], axis=-1)


def double_areas(corner: Array) -> Array:
    """Return twice the areas of triangles ``[..., 3, 3]``."""
    return np.linalg.norm(_cross(corner), axis=-1)


def unit_normals(corner: Array) -> Array:
    """Return the unit normals of triangles ``[..., 3, 3]``."""
    cross = _cross(corner)
    return cross / np.maximum(np.linalg.norm(cross, axis=-1, keepdims=True), 1e-300)


def triangle_quality(corner: Array, outward: Array | None = None) -> Array:
    """Return the quality of triangles ``[..., 3, 3]``: height over longest side.

    It is 0.87 for an equilateral triangle and 0 for a degenerate one; with ``outward`` normals, it
    is negative for an inverted triangle.
    """
    side = corner - np.roll(corner, 1, axis=-2)
    longest = (side**2).sum(axis=-1).max(axis=-1)
    if outward is None:
        return double_areas(corner) / np.maximum(longest, 1e-300)
    return (_cross(corner) * outward).sum(axis=-1) / np.maximum(longest, 1e-300)


def _newton_steps(
    pos: Array, row: Array, surface: Array, surfaces: Sequence[Surface], reach: float
) -> Array:
    """Return the minimum-norm Newton step of each point toward all its surfaces, ``[R, 3]``."""
    value, gradient = np.empty(len(row)), np.empty((len(row), 3))
    for k in np.unique(surface):
        on = surface == k
        value[on], gradient[on] = value_and_gradient(surfaces[k], pos[row[on]])
    size = np.linalg.norm(gradient, axis=1)
    value, gradient = value / size, gradient / size[:, None]
    step = np.zeros_like(pos)
    count = np.bincount(row, minlength=len(pos))
    for number in np.unique(count[count > 0]):
        on = count[row] == number  # sorted by row, so that reshaping groups them
        jacobian, residual = gradient[on].reshape(-1, number, 3), value[on].reshape(-1, number)
        gram = jacobian @ jacobian.swapaxes(1, 2) + 1e-9 * np.eye(number)
        weight = np.linalg.solve(gram, residual[..., None]) if number > 1 else residual[..., None]
        step[row[on][::number]] = -(jacobian.swapaxes(1, 2) @ weight)[..., 0]
    long = np.linalg.norm(step, axis=1, keepdims=True)
    return step * np.minimum(1, reach / np.maximum(long, 1e-300))
