"""Constructive solid geometry (CSG) over implicit surfaces.

A surface is a function ``[N, 3] -> [N]`` that is negative inside. Booleans are the minimum and
maximum of such functions (Ricci, "A Constructive Geometry for Computer Graphics", The Computer
Journal 1973). A solid also returns the index of the surface that attains the extremum: a mesh has
its sharp edges where this index changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from permutogeo.typing import Array

Surface = Callable[[Array], Array]
Deformation = Callable[[Array], Array]


class Solid(ABC):
    """Base class of the nodes of a CSG tree."""

    #: All surfaces of the tree, each negative on the side of the solid.
    surfaces: tuple[Surface, ...]
    #: Points where a surface has no normal, such as the apex of a cone, ``[T, 3]``.
    singular_points: Array = np.zeros((0, 3))

    @abstractmethod
    def __call__(self, points: Array) -> tuple[Array, Array]:
        """Return the value ``[N]``, negative inside, and the index of its surface ``[N]``."""

    def __or__(self, other: Solid) -> Solid:
        return Boolean(self, other, 1)

    def __and__(self, other: Solid) -> Solid:
        return Boolean(self, other, -1)

    def __sub__(self, other: Solid) -> Solid:
        return Boolean(self, Complement(other), -1)

    def moved(self, rotation: Array | None = None, shift: Array | tuple = (0, 0, 0)) -> Solid:
        """Return the solid rotated by a matrix, then translated."""
        matrix = np.eye(3) if rotation is None else rotation
        offset = np.asarray(shift, float)
        solid = Deformed(self, lambda points: (points - offset) @ matrix)
        solid.singular_points = self.singular_points @ matrix.T + offset
        return solid


class Primitive(Solid):
    """Leaf of the tree: the solid inside one smooth surface."""

    def __init__(self, surface: Surface, singular_points: Array | None = None):
        self.surfaces = (surface,)
        if singular_points is not None:
            self.singular_points = np.reshape(singular_points, (-1, 3))

    def __call__(self, points: Array) -> tuple[Array, Array]:
        return self.surfaces[0](points), np.zeros(len(points), np.int64)


class Boolean(Solid):
    """The union (``sign`` 1) or intersection (-1) of two solids."""

    def __init__(self, first: Solid, second: Solid, sign: int):
        self.first, self.second, self.sign = first, second, sign
        self.surfaces = first.surfaces + second.surfaces
        self.singular_points = np.concatenate([first.singular_points, second.singular_points])

    def __call__(self, points: Array) -> tuple[Array, Array]:
        a, index_a = self.first(points)
        b, index_b = self.second(points)
        take = self.sign * a <= self.sign * b
        return np.where(take, a, b), np.where(take, index_a, index_b + len(self.first.surfaces))


class Complement(Solid):
    """Complement of a solid."""

    def __init__(self, solid: Solid):
        self.solid = solid
        self.surfaces = tuple(_negative(surface) for surface in solid.surfaces)
        self.singular_points = solid.singular_points

    def __call__(self, points: Array) -> tuple[Array, Array]:
        value, index = self.solid(points)
        return -value, index


class Deformed(Solid):
    """A solid whose points are mapped by a smooth inverse deformation."""

    def __init__(self, solid: Solid, inverse: Deformation):
        self.solid, self.inverse = solid, inverse
        self.surfaces = tuple(_composed(surface, inverse) for surface in solid.surfaces)

    def __call__(self, points: Array) -> tuple[Array, Array]:
        return self.solid(self.inverse(points))


def _negative(surface: Surface) -> Surface:
    return lambda points: -surface(points)


def _composed(surface: Surface, inverse: Deformation) -> Surface:
    return lambda points: surface(inverse(points))
