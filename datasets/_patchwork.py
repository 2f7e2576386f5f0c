"""Closed triangle meshes made of patches, each on a smooth surface of its own.

Vertices inside a patch lie on its surface, those between two patches on the crease where both
surfaces meet, and those of three and more are corners.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from permutogeo.data._fields import Array
from permutogeo.datasets._solids import Surface

INNER, CREASE, CORNER = range(3)
# A triangle of this quality may change at will; a worse one must not become worse still.
HEALTHY = 0.2


class Tangled(ValueError):
    """The mesh is no closed surface, or a vertex does not reach the surfaces it should lie on."""


@dataclass(frozen=True)
class Edges:
    """The edges of a closed mesh, each once.

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
            raise Tangled("an edge has not two faces")
        return cls(
            np.stack([start[first], end[first]], axis=1),
            np.stack([first // 3, second // 3], axis=1),
            np.stack([third[first], third[second]], axis=1),
        )


@dataclass
class Patchwork:
    """Vertices ``pos [V, 3]``, triangles ``face [F, 3]`` and the surface of each ``patch [F]``.

    ``fixed [V]`` marks vertices that stay where they are.
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

    def changed(self, pos: Array, face: Array, patch: Array, fixed: Array) -> Patchwork:
        """Another mesh on the same surfaces."""
        return Patchwork(pos, face, patch, self.surfaces, fixed)

    @property
    def is_crease(self) -> Array:
        """Whether an edge lies between two patches, ``[E]``."""
        sides = self.patch[self.edges.faces]
        return sides[:, 0] != sides[:, 1]

    @property
    def rank(self) -> Array:
        """Whether a vertex is inside a patch, on a crease or a corner, ``[V]``."""
        count = np.bincount(self.edges.ends[self.is_crease].reshape(-1), minlength=len(self.pos))
        rank = np.where(count == 0, INNER, np.where(count == 2, CREASE, CORNER))
        return np.where(self.fixed, CORNER, rank)

    @property
    def length(self) -> Array:
        """The length of each edge, ``[E]``."""
        start, end = self.pos[self.edges.ends].swapaxes(0, 1)
        return np.linalg.norm(end - start, axis=1)

    def outward(self, rows: Array) -> Array:
        """The unit normals of their surfaces at the middle of some faces, ``[R, 3]``."""
        middle = self.pos[self.face[rows]].mean(axis=1)
        patch = self.patch[rows]
        normal = np.empty_like(middle)
        for k in np.unique(patch):
            on = patch == k
            normal[on] = value_and_slope(self.surfaces[k], middle[on])[1]
        return normal / np.linalg.norm(normal, axis=1, keepdims=True)

    def fit(self, pos: Array, vertices: Array, reach: float, steps: int = 3) -> Array:
        """Where vertices near ``pos [R, 3]`` lie on all surfaces that they belong to, ``[R, 3]``.

        By the shortest Newton steps, none longer than ``reach``. Fixed vertices stay.
        """
        row_of = np.full(len(self.pos), -1)
        row_of[vertices] = np.arange(len(vertices))
        row_of[self.fixed] = -1
        member = row_of[self.face] * len(self.surfaces) + self.patch[:, None]
        row, surface = np.divmod(np.unique(member[member >= 0]), len(self.surfaces))
        for _ in range(steps):
            step = _newton(pos, row, surface, self.surfaces, reach)
            pos = pos + step
            if np.abs(step).max(initial=0.0) < 1e-9 * reach:
                break
        return pos


def value_and_slope(surface: Surface, points: Array) -> tuple[Array, Array]:
    """The value of a surface's function ``[N]`` and its slope ``[N, 3]``.

    The slope is that of the surface's own method of this name, or else by differences.
    """
    exact = getattr(surface, "value_and_slope", None)
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


def double_area(corner: Array) -> Array:
    """Twice the areas of triangles ``[..., 3, 3]``."""
    return np.linalg.norm(_cross(corner), axis=-1)


def unit_normal(corner: Array) -> Array:
    """The normals of triangles ``[..., 3, 3]``."""
    cross = _cross(corner)
    return cross / np.maximum(np.linalg.norm(cross, axis=-1, keepdims=True), 1e-300)


def quality(corner: Array, outward: Array | None = None) -> Array:
    """The height of triangles ``[..., 3, 3]`` over their longest side.

    It is 0.87 for three equal sides and 0 for corners on a line; seen along ``outward``, it is
    negative for a triangle that shows its back.
    """
    side = corner - np.roll(corner, 1, axis=-2)
    longest = (side**2).sum(axis=-1).max(axis=-1)
    if outward is None:
        return double_area(corner) / np.maximum(longest, 1e-300)
    return (_cross(corner) * outward).sum(axis=-1) / np.maximum(longest, 1e-300)


def _newton(
    pos: Array, row: Array, surface: Array, surfaces: Sequence[Surface], reach: float
) -> Array:
    """The shortest step that takes each point to all its surfaces, to first order, ``[R, 3]``."""
    value, slope = np.empty(len(row)), np.empty((len(row), 3))
    for k in np.unique(surface):
        on = surface == k
        value[on], slope[on] = value_and_slope(surfaces[k], pos[row[on]])
    size = np.linalg.norm(slope, axis=1)
    value, slope = value / size, slope / size[:, None]
    step = np.zeros_like(pos)
    count = np.bincount(row, minlength=len(pos))
    for number in np.unique(count[count > 0]):
        on = count[row] == number  # sorted by row, so that reshaping groups them
        jacobian, residual = slope[on].reshape(-1, number, 3), value[on].reshape(-1, number)
        gram = jacobian @ jacobian.swapaxes(1, 2) + 1e-9 * np.eye(number)
        weight = np.linalg.solve(gram, residual[..., None]) if number > 1 else residual[..., None]
        step[row[on][::number]] = -(jacobian.swapaxes(1, 2) @ weight)[..., 0]
    long = np.linalg.norm(step, axis=1, keepdims=True)
    return step * np.minimum(1, reach / np.maximum(long, 1e-300))
