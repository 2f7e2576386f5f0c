"""Solids as trees of unions, intersections and differences over smooth surfaces.

A surface is a function ``[N, 3] -> [N]`` that is negative inside; a solid knows at each point which
of its surfaces is the nearest part of its boundary, so that a mesh of it can have its edges where
two of them meet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from permutogeo.data._fields import Array

Surface = Callable[[Array], Array]
Warp = Callable[[Array], Array]


class Solid(ABC):
    """Where the least, or largest, of some smooth functions is negative."""

    #: The surfaces, each oriented so that it is negative on the solid's side.
    surfaces: tuple[Surface, ...]
    #: Points where a surface has no normal, such as the tip of a cone, ``[T, 3]``.
    tips: Array = np.zeros((0, 3))

    @abstractmethod
    def __call__(self, points: Array) -> tuple[Array, Array]:
        """Value ``[N]``, negative inside, and index of the surface it comes from ``[N]``."""

    def __or__(self, other: Solid) -> Solid:
        return Joined(self, other, 1)

    def __and__(self, other: Solid) -> Solid:
        return Joined(self, other, -1)

    def __sub__(self, other: Solid) -> Solid:
        return Joined(self, Inverse(other), -1)

    def moved(self, rotation: Array | None = None, shift: Array | tuple = (0, 0, 0)) -> Solid:
        """The solid turned by a matrix, then shifted."""
        matrix = np.eye(3) if rotation is None else rotation
        offset = np.asarray(shift, float)
        solid = Warped(self, lambda points: (points - offset) @ matrix)
        solid.tips = self.tips @ matrix.T + offset
        return solid


class Leaf(Solid):
    """The solid inside one smooth surface."""

    def __init__(self, surface: Surface, tips: Array | None = None):
        self.surfaces = (surface,)
        if tips is not None:
            self.tips = np.reshape(tips, (-1, 3))

    def __call__(self, points: Array) -> tuple[Array, Array]:
        return self.surfaces[0](points), np.zeros(len(points), np.int64)


class Joined(Solid):
    """The union (``sign`` 1) or intersection (-1) of two solids."""

    def __init__(self, first: Solid, second: Solid, sign: int):
        self.first, self.second, self.sign = first, second, sign
        self.surfaces = first.surfaces + second.surfaces
        self.tips = np.concatenate([first.tips, second.tips])

    def __call__(self, points: Array) -> tuple[Array, Array]:
        a, index_a = self.first(points)
        b, index_b = self.second(points)
        take = self.sign * a <= self.sign * b
        return np.where(take, a, b), np.where(take, index_a, index_b + len(self.first.surfaces))


class Inverse(Solid):
    """All that a solid is not."""

    def __init__(self, solid: Solid):
        self.solid = solid
        self.surfaces = tuple(_negative(surface) for surface in solid.surfaces)
        self.tips = solid.tips

    def __call__(self, points: Array) -> tuple[Array, Array]:
        value, index = self.solid(points)
        return -value, index


class Warped(Solid):
    """A solid seen through a smooth map of space."""

    def __init__(self, solid: Solid, warp: Warp):
        self.solid, self.warp = solid, warp
        self.surfaces = tuple(_through(surface, warp) for surface in solid.surfaces)

    def __call__(self, points: Array) -> tuple[Array, Array]:
        return self.solid(self.warp(points))


def _negative(surface: Surface) -> Surface:
    return lambda points: -surface(points)


def _through(surface: Surface, warp: Warp) -> Surface:
    return lambda points: surface(warp(points))
