"""Solids to build others from: boxes, balls, cylinders, cones, columns over polygons, and so on."""

from __future__ import annotations

import numpy as np
from scipy.spatial import ConvexHull

from permutogeo.data._fields import Array
from permutogeo.datasets._solids import Leaf, Solid, Surface, Warped


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
