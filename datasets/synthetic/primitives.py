"""CSG primitives: half-spaces, boxes, ellipsoids, cylinders, cones, tori, prisms and so on.

Implicit functions are scaled to approximate signed distances.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import ConvexHull

from permutogeo.datasets.synthetic.csg import Deformed, Primitive, Solid, Surface
from permutogeo.typing import Array


def half_space(normal: Array | tuple, offset: float) -> Solid:
    """Return the half-space ``normal · point < offset``."""
    direction = np.asarray(normal, float)
    direction = direction / np.linalg.norm(direction)
    return Primitive(lambda points: points @ direction - offset)


def intersect_half_spaces(planes: list[tuple[Array | tuple, float]]) -> Solid:
    """Return the intersection of half-spaces, each a normal and an offset."""
    solid = half_space(*planes[0])
    for plane in planes[1:]:
        solid = solid & half_space(*plane)
    return solid


def slab(half_height: float, axis: int = 2) -> Solid:
    """Return the slab between two planes at ``half_height`` from the origin along an axis."""
    normal = np.eye(3)[axis]
    return half_space(normal, half_height) & half_space(-normal, half_height)


def box(half: Array | tuple) -> Solid:
    """Return a box about the origin with the given half extents."""
    return slab(half[0], 0) & slab(half[1], 1) & slab(half[2], 2)


def ellipsoid(radii: Array | tuple | float) -> Solid:
    """Return a ball or an ellipsoid about the origin."""
    size = np.broadcast_to(np.asarray(radii, float), 3)
    return Primitive(lambda points: (np.linalg.norm(points / size, axis=1) - 1) * size.min())


def rounded_box(half: Array | tuple, radius: float) -> Solid:
    """Return a box about the origin with rounded edges, as one smooth surface."""
    inner = np.asarray(half, float) - radius

    def surface(points: Array) -> Array:
        beyond = np.abs(points) - inner
        reach = np.linalg.norm(np.maximum(beyond, 0), axis=1)
        return reach + np.minimum(beyond.max(axis=1), 0) - radius

    return Primitive(surface)


def infinite_cylinder(radius: float) -> Solid:
    """Return an infinite cylinder about the z axis."""
    return Primitive(lambda points: np.hypot(points[:, 0], points[:, 1]) - radius)


def cylinder(radius: float, half_height: float) -> Solid:
    """Return a cylinder about the z axis."""
    return infinite_cylinder(radius) & slab(half_height)


def cone(radius: float, height: float) -> Solid:
    """Return a cone about the z axis: the base at height 0, the apex above."""
    slope = radius / height
    scale = 1 / np.hypot(1, slope)

    def surface(points: Array) -> Array:
        reach = slope * (height - points[:, 2])
        return (np.hypot(points[:, 0], points[:, 1]) - reach) * scale

    side = Primitive(surface, singular_points=np.array([0, 0, height]))
    return side & half_space((0, 0, -1), 0.0)


def torus(radius: float, thickness: float) -> Solid:
    """Return a torus about the z axis."""

    def surface(points: Array) -> Array:
        across = np.hypot(points[:, 0], points[:, 1]) - radius
        return np.hypot(across, points[:, 2]) - thickness

    return Primitive(surface)


def infinite_star(radius: float, depth: float, count: int, phase: float = 0.0) -> Solid:
    """Return an infinite cylinder about the z axis over a smooth star."""

    def surface(points: Array) -> Array:
        angle = np.arctan2(points[:, 1], points[:, 0])
        reach = radius * (1 + depth * np.cos(count * angle + phase))
        return np.hypot(points[:, 0], points[:, 1]) - reach

    return Primitive(surface)


def infinite_prism(outline: Array) -> Solid:
    """Return an infinite prism about the z axis over a simple polygon ``[P, 2]``."""
    ahead = np.roll(outline, -1, axis=0)
    area = np.sum(outline[:, 0] * ahead[:, 1] - outline[:, 1] * ahead[:, 0])
    return _polygon_prism(outline if area > 0 else outline[::-1], has_last=True)


def _polygon_prism(points: Array, has_last: bool) -> Solid:
    """Return the prism of a polygon as its convex hull minus the pockets between the two.

    The edge from the last point to the first is left out unless ``has_last``: the lid of a pocket
    lies on the hull that it is subtracted from and bounds nothing.
    """
    corners = np.sort(ConvexHull(points).vertices)
    planes, pockets = [], []
    for start, end in zip(corners, np.roll(corners, -1), strict=True):
        between = np.arange(start, end + 1 if end > start else end + 1 + len(points)) % len(points)
        if len(between) > 2:
            pockets.append(_polygon_prism(points[between[::-1]], has_last=False))
        if has_last or between[-1] != 0:
            along = points[end] - points[start]
            normal = np.array([along[1], -along[0], 0]) / np.linalg.norm(along)
            planes.append((normal, normal[:2] @ points[start]))
    solid = intersect_half_spaces(planes)
    for pocket in pockets:
        solid = solid - pocket
    return solid


def prism(outline: Array, half_height: float) -> Solid:
    """Return a simple polygon ``[P, 2]`` extruded along the z axis."""
    return infinite_prism(outline) & slab(half_height)


def revolved(profile: Array) -> Solid:
    """Return a simple polygon of radii and heights ``[P, 2]`` revolved about the z axis."""

    def fold(points: Array) -> Array:
        radius = np.hypot(points[:, 0], points[:, 1])
        return np.stack([radius, points[:, 2], np.zeros_like(radius)], axis=1)

    return Deformed(infinite_prism(profile), fold)


def twisted(solid: Solid, rate: float, taper: float = 0.0) -> Solid:
    """Return a solid twisted about the z axis by ``rate`` per height, and tapered upward."""

    def untwist(points: Array) -> Array:
        angle = -rate * points[:, 2]
        scale = 1 / np.maximum(1 - taper * points[:, 2], 0.2)
        x = np.cos(angle) * points[:, 0] - np.sin(angle) * points[:, 1]
        y = np.sin(angle) * points[:, 0] + np.cos(angle) * points[:, 1]
        return np.stack([x * scale, y * scale, points[:, 2]], axis=1)

    return Deformed(solid, untwist)


def smooth_union(surfaces: list[Surface], width: float) -> Solid:
    """Return the union of smooth solids as one smooth surface, blended over ``width``.

    The minimum is replaced by a cubic polynomial where two values differ by less than ``width``.
    """

    def surface(points: Array) -> Array:
        value = surfaces[0](points)
        for other in surfaces[1:]:
            b = other(points)
            mix = np.maximum(width - np.abs(value - b), 0) / width
            value = np.minimum(value, b) - width / 6 * mix**3
        return value

    return Primitive(surface)
