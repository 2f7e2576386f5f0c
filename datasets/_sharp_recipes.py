"""Random solids like machined parts: flat and curved, with creases of all angles."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from permutogeo.data._fields import Array
from permutogeo.datasets._primitives import (
    ball,
    blended,
    box,
    column,
    cone,
    convex,
    cylinder,
    half_space,
    lobed,
    prism,
    rounded_box,
    slab,
    torus,
    tube,
    turned,
    twisted,
)
from permutogeo.datasets._solids import Leaf, Solid

Random = np.random.Generator


def random_solid(kind: int, rng: Random) -> Solid:
    """A solid within 1.8 of the origin, turned at random; kinds take turns."""
    return RECIPES[kind % len(RECIPES)](rng).moved(_rotation(rng))


def _rotation(rng: Random) -> Array:
    """A rotation drawn uniformly, by a unit quaternion."""
    w, x, y, z = (q := rng.standard_normal(4)) / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def _outline(rng: Random) -> Array:
    """A polygon around the origin: regular, or with uneven angles and radii."""
    count = int(rng.integers(3, 13))
    angle = 2 * np.pi * (np.arange(count) + rng.uniform(-0.25, 0.25, count)) / count
    radius = rng.uniform(0.55, 1.0, count)
    if rng.random() < 0.3:
        angle, radius = 2 * np.pi * np.arange(count) / count, np.full(count, 0.9)
    return radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _tool(rng: Random) -> Solid:
    """A small solid to add or to cut away."""
    size = rng.uniform(0.2, 0.45, 3)
    makers: list[Callable[[], Solid]] = [
        lambda: box(size),
        lambda: cylinder(size[0], 1.5 * size[1]),
        lambda: cone(size[0] + 0.1, 2.5 * size[1]).moved(shift=(0, 0, -size[1])),
        lambda: ball(size[0]),
        lambda: ball(size),
        lambda: prism(size[0] * 1.4 * _outline(rng), size[1]),
        lambda: torus(size[0] + 0.1, 0.14),
        lambda: rounded_box(size, 0.12),
    ]
    return makers[rng.integers(len(makers))]()


def _placed(rng: Random, solid: Solid, reach: Array) -> Solid:
    """The solid at a random place of a box's boundary, mostly along its axes."""
    turn = np.eye(3)[rng.permutation(3)]
    turn = turn * np.linalg.det(turn) if rng.random() < 0.7 else _rotation(rng)
    place = rng.uniform(-0.7, 0.7, 3) * reach
    axis = rng.integers(3)
    place[axis] = reach[axis] * rng.choice([-1, 1])
    return solid.moved(turn, place)


def block(rng: Random) -> Solid:
    """A box with things added and cut away."""
    half = rng.uniform(0.4, 0.85, 3)
    solid = box(half)
    for _ in range(rng.integers(1, 5)):
        tool = _placed(rng, _tool(rng), half)
        solid = solid | tool if rng.random() < 0.5 else solid - tool
    return _drilled(rng, solid)


def _drilled(rng: Random, solid: Solid) -> Solid:
    """Sometimes with a hole from end to end."""
    if rng.random() < 0.5:
        return solid
    shift = rng.uniform(-0.15, 0.15, 3)
    hole = tube(rng.uniform(0.15, 0.32)) if rng.random() < 0.6 else column(0.35 * _outline(rng))
    return solid - hole.moved(np.eye(3)[np.roll(np.arange(3), rng.integers(3))], shift)


def polyhedron(rng: Random) -> Solid:
    """Planes all around, at steep angles if they are few and at shallow ones if many."""
    count = int(rng.integers(6, 32))
    height = 1 - (2 * np.arange(count) + 1) / count
    angle = np.pi * (1 + 5**0.5) * np.arange(count)
    radius = np.sqrt(1 - height**2)
    normal = np.stack([radius * np.cos(angle), radius * np.sin(angle), height], axis=1)
    normal += rng.normal(0, 0.5 / np.sqrt(count), normal.shape)
    solid = convex(list(zip(normal, rng.uniform(0.7, 0.9, count), strict=True)))
    solid = solid & ball(rng.uniform(0.95, 1.3))
    return _drilled(rng, solid)


def pillar(rng: Random) -> Solid:
    """A polygon drawn out, perhaps twisted, narrowed, domed and drilled."""
    half = rng.uniform(0.25, 0.8)
    solid = column(_outline(rng))
    if rng.random() < 0.5:
        solid = twisted(solid, rng.uniform(-1.2, 1.2), rng.uniform(0, 0.4))
    dome = ball(rng.uniform(1.1, 1.5)) if rng.random() < 0.4 else slab(half)
    return _drilled(rng, solid & dome & slab(half))


def star(rng: Random) -> Solid:
    """A smooth star drawn out between flat or domed ends."""
    solid = lobed(0.75, rng.uniform(0.08, 0.35), int(rng.integers(2, 7)), rng.uniform(0, 6))
    if rng.random() < 0.5:
        solid = twisted(solid, rng.uniform(-1, 1), rng.uniform(0, 0.4))
    half = rng.uniform(0.2, 0.7)
    top = ball(rng.uniform(0.9, 1.4)) & slab(half) if rng.random() < 0.4 else slab(half)
    return _drilled(rng, solid & top)


def lathe(rng: Random) -> Solid:
    """A turned part with steps and slopes, perhaps bored and slotted."""
    height = np.cumsum(rng.uniform(0.25, 0.6, rng.integers(2, 5)))
    level = np.concatenate([[0], height]) - height[-1] / 2
    low, high = rng.uniform(0.35, 0.9, (2, len(height)))
    high = np.where(rng.random(len(height)) < 0.5, low, high)
    rim = np.stack([low, level[:-1], high, level[1:]], axis=1).reshape(-1, 2)
    solid = turned(np.concatenate([[(-1, level[0])], rim, [(-1, level[-1])]]))
    if rng.random() < 0.5:
        solid = solid - tube(rng.uniform(0.12, 0.25))
    count = int(rng.integers(0, 5))
    for angle in 2 * np.pi * np.arange(count) / count:
        c, s = np.cos(angle), np.sin(angle)
        slot = box((0.4, 0.12, 0.35)).moved(shift=(0.85, 0, level[-1]))
        solid = solid - slot.moved(np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]))
    return solid


def ring(rng: Random) -> Solid:
    """A polygon or disk led around an axis, perhaps cut open."""
    middle = rng.uniform(0.65, 0.8)
    solid = turned(0.4 * _outline(rng) + (middle, 0)) if rng.random() < 0.7 else torus(middle, 0.3)
    if rng.random() < 0.5:
        solid = solid - _placed(rng, _tool(rng), np.array([0.8, 0.8, 0.2]))
    if rng.random() < 0.4:
        solid = solid & half_space(rng.standard_normal(3), rng.uniform(0.1, 0.5))
    return solid


def carved_ball(rng: Random) -> Solid:
    """A ball or egg with slots, grooves and flats."""
    solid = ball(rng.uniform(0.65, 1.0, 3)) if rng.random() < 0.5 else ball(0.9)
    for _ in range(rng.integers(1, 4)):
        kind = rng.integers(4)
        turn, shift = _rotation(rng), rng.uniform(-0.4, 0.4, 3)
        if kind == 0:
            solid = solid - (slab(rng.uniform(0.1, 0.2)) - tube(0.45)).moved(turn, shift)
        elif kind == 1:
            solid = solid - torus(0.85, rng.uniform(0.12, 0.25)).moved(turn, shift / 4)
        elif kind == 2:
            solid = solid & half_space(turn[0], rng.uniform(0.35, 0.7))
        else:
            wedge = half_space((1, 0.4, 0), 0) & half_space((-1, 0.4, 0), 0)
            solid = solid - wedge.moved(turn, 0.3 * turn[:, 1])
    return solid


def lens(rng: Random) -> Solid:
    """Large balls and columns in common: curved sides that meet in shallow creases."""
    solid: Solid = ball(0.95)
    for _ in range(rng.integers(2, 7)):
        radius = rng.uniform(0.9, 2.0)
        side = ball(radius) if rng.random() < 0.5 else tube(radius)
        turn = _rotation(rng)
        solid = solid & side.moved(turn, (radius - rng.uniform(0.55, 0.8)) * turn[:, 0])
    return _drilled(rng, solid)


def wave(rng: Random) -> Solid:
    """A block under a smooth wavy top."""
    frequency, phase = rng.uniform(1.5, 4, 2), rng.uniform(0, 6, 2)
    depth = rng.uniform(0.05, 0.18)

    def surface(points: Array) -> Array:
        x, y = (np.sin(frequency * points[:, :2] + phase)).T
        return 0.6 * (points[:, 2] - 0.2 - depth * (x + y))

    bottom = half_space((0, 0, -1), rng.uniform(0.1, 0.4))
    walls = column(_outline(rng)) if rng.random() < 0.5 else lobed(0.85, 0.15, 3)
    return _drilled(rng, Leaf(surface) & bottom & walls)


def pebble(rng: Random) -> Solid:
    """Balls and rounded boxes run together, then cut flat, drilled or milled."""
    parts = []
    for _ in range(rng.integers(2, 6)):
        size = rng.uniform(0.3, 0.55, 3)
        part = ball(size) if rng.random() < 0.6 else rounded_box(size, 0.2)
        parts.append(part.moved(_rotation(rng), rng.uniform(-0.45, 0.45, 3)).surfaces[0])
    solid = blended(parts, rng.uniform(0.15, 0.4))
    for _ in range(rng.integers(0, 3)):
        solid = solid & half_space(rng.standard_normal(3), rng.uniform(0.2, 0.5))
    return _drilled(rng, solid)


RECIPES = (block, polyhedron, pillar, star, lathe, ring, carved_ball, lens, wave, pebble)
