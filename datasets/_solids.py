"""Solids as trees of unions, intersections and differences over smooth surfaces.

A surface is a function ``[N, 3] -> [N]`` that is negative inside; a solid knows at each point which
of its surfaces is the nearest part of its boundary, so that a mesh of it can have its edges where
two of them meet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from scipy.spatial import ConvexHull

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


def half_space(normal: Array | tuple, offset: float) -> Solid:
    """Where ``normal · point < offset``."""
    direction = np.asarray(normal, float)
    direction = direction / np.linalg.norm(direction)
    return Leaf(lambda points: points @ direction - offset)


def convex(planes: list[tuple[Array | tuple, float]]) -> Solid:
    """The intersection of half-spaces, each a normal and an offset."""
    solid = half_space(*planes[0])
    for plane in planes[1:]:
        solid = solid & half_space(*plane)
    return solid


def slab(half_height: float, axis: int = 2) -> Solid:
    """The points no farther than ``half_height`` from the plane across an axis."""
    normal = np.eye(3)[axis]
    return half_space(normal, half_height) & half_space(-normal, half_height)


def box(half: Array | tuple) -> Solid:
    """A box about the origin with the given half sizes."""
    return slab(half[0], 0) & slab(half[1], 1) & slab(half[2], 2)


def ball(radii: Array | tuple | float) -> Solid:
    """A ball or ellipsoid about the origin."""
    size = np.broadcast_to(np.asarray(radii, float), 3)
    return Leaf(lambda points: (np.linalg.norm(points / size, axis=1) - 1) * size.min())


def rounded_box(half: Array | tuple, radius: float) -> Solid:
    """A box about the origin with rounded edges: one smooth surface."""
    inner = np.asarray(half, float) - radius

    def surface(points: Array) -> Array:
        beyond = np.abs(points) - inner
        reach = np.linalg.norm(np.maximum(beyond, 0), axis=1)
        return reach + np.minimum(beyond.max(axis=1), 0) - radius

    return Leaf(surface)


def tube(radius: float) -> Solid:
    """An endless cylinder about the third axis."""
    return Leaf(lambda points: np.hypot(points[:, 0], points[:, 1]) - radius)


def cylinder(radius: float, half_height: float) -> Solid:
    """A cylinder about the third axis."""
    return tube(radius) & slab(half_height)


def cone(radius: float, height: float) -> Solid:
    """A cone about the third axis: the base at height 0, the tip above."""
    slope = radius / height
    scale = 1 / np.hypot(1, slope)

    def surface(points: Array) -> Array:
        reach = slope * (height - points[:, 2])
        return (np.hypot(points[:, 0], points[:, 1]) - reach) * scale

    side = Leaf(surface, tips=np.array([0, 0, height]))
    return side & half_space((0, 0, -1), 0.0)


def torus(radius: float, thickness: float) -> Solid:
    """A ring about the third axis."""

    def surface(points: Array) -> Array:
        across = np.hypot(points[:, 0], points[:, 1]) - radius
        return np.hypot(across, points[:, 2]) - thickness

    return Leaf(surface)


def lobed(radius: float, depth: float, count: int, phase: float = 0.0) -> Solid:
    """An endless column about the third axis whose outline is a smooth star."""

    def surface(points: Array) -> Array:
        angle = np.arctan2(points[:, 1], points[:, 0])
        reach = radius * (1 + depth * np.cos(count * angle + phase))
        return np.hypot(points[:, 0], points[:, 1]) - reach

    return Leaf(surface)


def column(outline: Array) -> Solid:
    """An endless column about the third axis over a simple polygon ``[P, 2]``, convex or not."""
    ahead = np.roll(outline, -1, axis=0)
    area = np.sum(outline[:, 0] * ahead[:, 1] - outline[:, 1] * ahead[:, 0])
    return _column(outline if area > 0 else outline[::-1], has_last=True)


def _column(points: Array, has_last: bool) -> Solid:
    """The polygon as its convex hull without the pockets between the two.

    The edge from the last point to the first counts only if ``has_last``: the lid of a pocket lies
    on the hull of what it is taken from, where there is nothing left to bound.
    """
    corners = np.sort(ConvexHull(points).vertices)
    planes, pockets = [], []
    for start, end in zip(corners, np.roll(corners, -1), strict=True):
        between = np.arange(start, end + 1 if end > start else end + 1 + len(points)) % len(points)
        if len(between) > 2:
            pockets.append(_column(points[between[::-1]], has_last=False))
        if has_last or between[-1] != 0:
            along = points[end] - points[start]
            normal = np.array([along[1], -along[0], 0]) / np.linalg.norm(along)
            planes.append((normal, normal[:2] @ points[start]))
    solid = convex(planes)
    for pocket in pockets:
        solid = solid - pocket
    return solid


def prism(outline: Array, half_height: float) -> Solid:
    """A simple polygon ``[P, 2]`` drawn out along the third axis."""
    return column(outline) & slab(half_height)


def turned(profile: Array) -> Solid:
    """A simple polygon of radii and heights ``[P, 2]`` turned about the third axis."""

    def fold(points: Array) -> Array:
        radius = np.hypot(points[:, 0], points[:, 1])
        return np.stack([radius, points[:, 2], np.zeros_like(radius)], axis=1)

    return Warped(column(profile), fold)


def twisted(solid: Solid, rate: float, taper: float = 0.0) -> Solid:
    """A solid turned about the third axis by ``rate`` per height, and made narrower upward."""

    def untwist(points: Array) -> Array:
        angle = -rate * points[:, 2]
        scale = 1 / np.maximum(1 - taper * points[:, 2], 0.2)
        x = np.cos(angle) * points[:, 0] - np.sin(angle) * points[:, 1]
        y = np.sin(angle) * points[:, 0] + np.cos(angle) * points[:, 1]
        return np.stack([x * scale, y * scale, points[:, 2]], axis=1)

    return Warped(solid, untwist)


def blended(surfaces: list[Surface], width: float) -> Solid:
    """The union of smooth solids with their seams rounded over ``width``: one smooth surface."""

    def surface(points: Array) -> Array:
        value = surfaces[0](points)
        for other in surfaces[1:]:
            b = other(points)
            mix = np.maximum(width - np.abs(value - b), 0) / width
            value = np.minimum(value, b) - width / 6 * mix**3
        return value

    return Leaf(surface)
