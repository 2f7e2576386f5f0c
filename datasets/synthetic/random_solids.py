"""Random CSG solids that resemble machined parts, with dihedral angles of all sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from permutogeo.datasets.synthetic.csg import Primitive, Solid
from permutogeo.datasets.synthetic.primitives import (
    box,
    cone,
    cylinder,
    ellipsoid,
    half_space,
    infinite_cylinder,
    infinite_prism,
    infinite_star,
    intersect_half_spaces,
    prism,
    revolved,
    rounded_box,
    slab,
    smooth_union,
    torus,
    twisted,
)
from permutogeo.typing import Array

Random = np.random.Generator


def random_solid(kind: int, rng: Random) -> Solid:
    """Return a randomly rotated solid within 1.8 of the origin, of a kind modulo ``KINDS``."""
    return KINDS[kind % len(KINDS)](rng).moved(_rotation(rng))


def _rotation(rng: Random) -> Array:
    """Return a uniformly random rotation, from a unit quaternion."""
    w, x, y, z = (q := rng.standard_normal(4)) / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def _outline(rng: Random) -> Array:
    """Return a polygon around the origin: regular, or with random angles and radii."""
    count = int(rng.integers(3, 13))
    angle = 2 * np.pi * (np.arange(count) + rng.uniform(-0.25, 0.25, count)) / count
    radius = rng.uniform(0.55, 1.0, count)
    if rng.random() < 0.3:
        angle, radius = 2 * np.pi * np.arange(count) / count, np.full(count, 0.9)
    return radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _tool(rng: Random) -> Solid:
    """Return a small solid to add or to subtract."""
    size = rng.uniform(0.2, 0.45, 3)
    makers: list[Callable[[], Solid]] = [
        lambda: box(size),
        lambda: cylinder(size[0], 1.5 * size[1]),
        lambda: cone(size[0] + 0.1, 2.5 * size[1]).moved(shift=(0, 0, -size[1])),
        lambda: ellipsoid(size[0]),
        lambda: ellipsoid(size),
        lambda: prism(size[0] * 1.4 * _outline(rng), size[1]),
        lambda: torus(size[0] + 0.1, 0.14),
        lambda: rounded_box(size, 0.12),
    ]
    return makers[rng.integers(len(makers))]()


def _placed(rng: Random, solid: Solid, reach: Array) -> Solid:
    """Return the solid at a random point of a box's boundary, mostly aligned with its axes."""
    turn = np.eye(3)[rng.permutation(3)]
    turn = turn * np.linalg.det(turn) if rng.random() < 0.7 else _rotation(rng)
    place = rng.uniform(-0.7, 0.7, 3) * reach
    axis = rng.integers(3)
    place[axis] = reach[axis] * rng.choice([-1, 1])
    return solid.moved(turn, place)


def block(rng: Random) -> Solid:
    """Return a box with smaller solids added and subtracted."""
    half = rng.uniform(0.4, 0.85, 3)
    solid = box(half)
    for _ in range(rng.integers(1, 5)):
        tool = _placed(rng, _tool(rng), half)
        solid = solid | tool if rng.random() < 0.5 else solid - tool
    return _drilled(rng, solid)


def _drilled(rng: Random, solid: Solid) -> Solid:
    """Return the solid, in half of the cases with a through hole."""
    if rng.random() < 0.5:
        return solid
    shift = rng.uniform(-0.15, 0.15, 3)
    hole = (
        infinite_cylinder(rng.uniform(0.15, 0.32))
        if rng.random() < 0.6
        else infinite_prism(0.35 * _outline(rng))
    )
    return solid - hole.moved(np.eye(3)[np.roll(np.arange(3), rng.integers(3))], shift)


def polyhedron(rng: Random) -> Solid:
    """Return a convex polyhedron: few faces give steep dihedral angles, many give shallow ones."""
    count = int(rng.integers(6, 32))
    height = 1 - (2 * np.arange(count) + 1) / count
    angle = np.pi * (1 + 5**0.5) * np.arange(count)
    radius = np.sqrt(1 - height**2)
    normal = np.stack([radius * np.cos(angle), radius * np.sin(angle), height], axis=1)
    normal += rng.normal(0, 0.5 / np.sqrt(count), normal.shape)
    solid = intersect_half_spaces(list(zip(normal, rng.uniform(0.7, 0.9, count), strict=True)))
    solid = solid & ellipsoid(rng.uniform(0.95, 1.3))
    return _drilled(rng, solid)


def pillar(rng: Random) -> Solid:
    """Return an extruded polygon, optionally twisted, tapered, domed and drilled."""
    half = rng.uniform(0.25, 0.8)
    solid = infinite_prism(_outline(rng))
    if rng.random() < 0.5:
        solid = twisted(solid, rng.uniform(-1.2, 1.2), rng.uniform(0, 0.4))
    dome = ellipsoid(rng.uniform(1.1, 1.5)) if rng.random() < 0.4 else slab(half)
    return _drilled(rng, solid & dome & slab(half))


def star(rng: Random) -> Solid:
    """Return an extruded smooth star with flat or domed ends."""
    solid = infinite_star(0.75, rng.uniform(0.08, 0.35), int(rng.integers(2, 7)), rng.uniform(0, 6))
    if rng.random() < 0.5:
        solid = twisted(solid, rng.uniform(-1, 1), rng.uniform(0, 0.4))
    half = rng.uniform(0.2, 0.7)
    top = ellipsoid(rng.uniform(0.9, 1.4)) & slab(half) if rng.random() < 0.4 else slab(half)
    return _drilled(rng, solid & top)


def lathe(rng: Random) -> Solid:
    """Return a surface of revolution with steps and slopes, optionally bored and slotted."""
    height = np.cumsum(rng.uniform(0.25, 0.6, rng.integers(2, 5)))
    level = np.concatenate([[0], height]) - height[-1] / 2
    low, high = rng.uniform(0.35, 0.9, (2, len(height)))
    high = np.where(rng.random(len(height)) < 0.5, low, high)
    rim = np.stack([low, level[:-1], high, level[1:]], axis=1).reshape(-1, 2)
    solid = revolved(np.concatenate([[(-1, level[0])], rim, [(-1, level[-1])]]))
    if rng.random() < 0.5:
        solid = solid - infinite_cylinder(rng.uniform(0.12, 0.25))
    count = int(rng.integers(0, 5))
    for angle in 2 * np.pi * np.arange(count) / count:
        c, s = np.cos(angle), np.sin(angle)
        slot = box((0.4, 0.12, 0.35)).moved(shift=(0.85, 0, level[-1]))
        solid = solid - slot.moved(np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]))
    return solid


def ring(rng: Random) -> Solid:
    """Return a polygon or disk revolved around an axis, optionally cut open."""
    middle = rng.uniform(0.65, 0.8)
    solid = (
        revolved(0.4 * _outline(rng) + (middle, 0)) if rng.random() < 0.7 else torus(middle, 0.3)
    )
    if rng.random() < 0.5:
        solid = solid - _placed(rng, _tool(rng), np.array([0.8, 0.8, 0.2]))
    if rng.random() < 0.4:
        solid = solid & half_space(rng.standard_normal(3), rng.uniform(0.1, 0.5))
    return solid


def carved_ellipsoid(rng: Random) -> Solid:
    """Return an ellipsoid with slots, grooves and flats."""
    solid = ellipsoid(rng.uniform(0.65, 1.0, 3)) if rng.random() < 0.5 else ellipsoid(0.9)
    for _ in range(rng.integers(1, 4)):
        kind = rng.integers(4)
        turn, shift = _rotation(rng), rng.uniform(-0.4, 0.4, 3)
        if kind == 0:
            solid = solid - (slab(rng.uniform(0.1, 0.2)) - infinite_cylinder(0.45)).moved(
                turn, shift
            )
        elif kind == 1:
            solid = solid - torus(0.85, rng.uniform(0.12, 0.25)).moved(turn, shift / 4)
        elif kind == 2:
            solid = solid & half_space(turn[0], rng.uniform(0.35, 0.7))
        else:
            wedge = half_space((1, 0.4, 0), 0) & half_space((-1, 0.4, 0), 0)
            solid = solid - wedge.moved(turn, 0.3 * turn[:, 1])
    return solid


def lens(rng: Random) -> Solid:
    """Return an intersection of large balls and cylinders, with shallow creases."""
    solid: Solid = ellipsoid(0.95)
    for _ in range(rng.integers(2, 7)):
        radius = rng.uniform(0.9, 2.0)
        side = ellipsoid(radius) if rng.random() < 0.5 else infinite_cylinder(radius)
        turn = _rotation(rng)
        solid = solid & side.moved(turn, (radius - rng.uniform(0.55, 0.8)) * turn[:, 0])
    return _drilled(rng, solid)


def wave(rng: Random) -> Solid:
    """Return a block with a smooth wavy top."""
    frequency, phase = rng.uniform(1.5, 4, 2), rng.uniform(0, 6, 2)
    depth = rng.uniform(0.05, 0.18)

    def surface(points: Array) -> Array:
        x, y = (np.sin(frequency * points[:, :2] + phase)).T
        return 0.6 * (points[:, 2] - 0.2 - depth * (x + y))

    bottom = half_space((0, 0, -1), rng.uniform(0.1, 0.4))
    walls = infinite_prism(_outline(rng)) if rng.random() < 0.5 else infinite_star(0.85, 0.15, 3)
    return _drilled(rng, Primitive(surface) & bottom & walls)


def pebble(rng: Random) -> Solid:
    """Return a smooth union of ellipsoids and rounded boxes, cut flat or drilled."""
    parts = []
    for _ in range(rng.integers(2, 6)):
        size = rng.uniform(0.3, 0.55, 3)
        part = ellipsoid(size) if rng.random() < 0.6 else rounded_box(size, 0.2)
        parts.append(part.moved(_rotation(rng), rng.uniform(-0.45, 0.45, 3)).surfaces[0])
    solid = smooth_union(parts, rng.uniform(0.15, 0.4))
    for _ in range(rng.integers(0, 3)):
        solid = solid & half_space(rng.standard_normal(3), rng.uniform(0.2, 0.5))
    return _drilled(rng, solid)


KINDS = (block, polyhedron, pillar, star, lathe, ring, carved_ellipsoid, lens, wave, pebble)
