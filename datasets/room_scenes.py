"""Generated rooms with labels."""

from __future__ import annotations

import numpy as np

from permutogeo.datasets.scanned_scenes import ScannedScenes, box_points
from permutogeo.typing import Array


class RoomScenes(ScannedScenes):
    r"""Scans of furnished rooms that are generated, with a label at each point.

    A room of 4 to 9 meters with walls, floor and ceiling, and tables with chairs around them,
    shelves and sofas along the walls, and lamps, is sampled with the density of a scanner in its
    middle, which falls with the squared distance. Nothing is read or downloaded. A scene is
    generated at first use and cached.

    Args:
        num_scenes: Number of scenes.
        split: ``"train"``, ``"val"`` or ``"test"``, which share no scene.
        num_points: Number of points of a scene.
        seed: Random seed; scene :math:`i` depends on the seed, the split and :math:`i`.
        transform: Applied at each access.
        pre_transform: Applied once, when a scene is generated.

    Each scene has ``pos`` :math:`(N, 3)` in meters, ``x`` :math:`(N, 1)`, the height above the
    lowest point, and ``y`` :math:`(N)`, an index into :attr:`classes`.

    Example:
        >>> from permutogeo.datasets import RoomScenes
        >>> RoomScenes(2, num_points=500)[0]
        Data(x=[500, 1], y=[500], pos=[500, 3])
    """

    #: Names of the classes, indexed by ``y``.
    classes = ("floor", "ceiling", "wall", "table", "chair", "shelf", "sofa", "lamp")
    num_classes = 8
    scanner, near, noise = 1.5, 1.5, 0.005

    def surfaces(self, rng: np.random.Generator, count: int) -> tuple[Array, Array]:
        size = np.array([rng.uniform(4, 9), rng.uniform(4, 7), rng.uniform(2.4, 3.2)])
        parts = [*_shell(rng, count // 2, size)]
        for _ in range(rng.integers(1, 4)):
            parts += _table(rng, count // 24, _place(rng, size, 1.2))
        for wall in range(4):
            make = (_shelf, _sofa)[rng.integers(2)]
            low, turn = _along(rng, wall, size)
            points, label = make(rng, count // 24)
            if turn:
                points = points[:, [1, 0, 2]] * [-1, 1, 1]
            parts.append((points + low, label))
        for _ in range(rng.integers(1, 3)):
            parts.append(_lamp(rng, count // 40, _place(rng, size, 0.6)))
        angle = rng.uniform(0, 2 * np.pi)
        turned = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        pos = np.concatenate([points for points, _ in parts])
        pos[:, :2] = pos[:, :2] @ turned
        return pos, np.concatenate([np.full(len(points), y) for points, y in parts])


def _shell(rng: np.random.Generator, count: int, size: Array) -> list[tuple[Array, int]]:
    """Return floor, ceiling and walls, centered at the origin."""
    wide = np.array([size[0], size[1], 0])
    floor = (rng.random((count // 3, 3)) - [0.5, 0.5, 0]) * wide
    ceiling = (rng.random((count // 3, 3)) - [0.5, 0.5, 0]) * wide + [0, 0, size[2]]
    walls = box_points(rng, count // 2, [-size[0] / 2, -size[1] / 2, 0], size)
    return [(floor, 0), (ceiling, 1), (walls[walls[:, 2] < size[2]], 2)]


def _place(rng: np.random.Generator, size: Array, margin: float) -> Array:
    """Return a place on the floor."""
    half = size[:2] / 2 - margin
    return np.append(rng.uniform(-half, half), 0.0)


def _along(rng: np.random.Generator, wall: int, size: Array) -> tuple[Array, bool]:
    """Return a place at a wall, and whether furniture there is turned by a right angle."""
    axis, end = wall // 2, 2 * (wall % 2) - 1
    place = np.zeros(3)
    place[axis] = end * (size[axis] / 2 - 0.55)
    place[1 - axis] = rng.uniform(-0.25, 0.25) * size[1 - axis]
    return place, axis == 0


def _table(rng: np.random.Generator, count: int, place: Array) -> list[tuple[Array, int]]:
    """Return a table and up to four chairs around it."""
    wide, deep, high = rng.uniform(0.9, 1.8), rng.uniform(0.7, 0.9), rng.uniform(0.68, 0.78)
    top = box_points(rng, count // 2, [-wide / 2, -deep / 2, high], [wide, deep, 0.04])
    found = [(np.concatenate([top, _legs(rng, count // 4, wide, deep, high)]) + place, 3)]
    for side in (-1, 1):
        for x in (-0.25, 0.25):
            if rng.random() < 0.7:
                at = np.add(place, (x * wide, side * (deep / 2 + rng.uniform(0.0, 0.3)), 0))
                found.append((_chair(rng, count // 4, side) + at, 4))
    return found


def _legs(rng: np.random.Generator, count: int, wide: float, deep: float, high: float) -> Array:
    """Return four legs below a top."""
    corner = rng.integers(0, 2, (count, 2)) - 0.5
    foot = corner * [0.9 * wide, 0.9 * deep] + rng.uniform(-0.02, 0.02, (count, 2))
    return np.column_stack([foot, rng.uniform(0, high, count)])


def _chair(rng: np.random.Generator, count: int, side: int) -> Array:
    wide, high = rng.uniform(0.4, 0.5), rng.uniform(0.42, 0.48)
    seat = box_points(rng, count // 3, [-wide / 2, -wide / 2, high], [wide, wide, 0.04])
    back = [-wide / 2, side * wide / 2 - 0.02, high]
    rest = box_points(rng, count // 3, back, [wide, 0.04, rng.uniform(0.4, 0.55)])
    return np.concatenate([seat, rest, _legs(rng, count // 3, wide, wide, high)])


def _shelf(rng: np.random.Generator, count: int) -> tuple[Array, int]:
    """Return a shelf with boards, along the first axis."""
    wide, high, deep = rng.uniform(0.8, 2.0), rng.uniform(1.2, 2.2), rng.uniform(0.25, 0.45)
    body = box_points(rng, count // 2, [-wide / 2, -deep / 2, 0], [wide, deep, high])
    board = rng.random((count // 2, 3)) * [wide, deep, 0] - [wide / 2, deep / 2, 0]
    levels = rng.integers(3, 7)
    board[:, 2] = high * rng.integers(0, levels, len(board)) / levels
    return np.concatenate([body, board]), 5


def _sofa(rng: np.random.Generator, count: int) -> tuple[Array, int]:
    wide, deep = rng.uniform(1.4, 2.2), rng.uniform(0.75, 0.95)
    low = [-wide / 2, -deep / 2, 0.05]
    seat = box_points(rng, count // 2, low, [wide, deep, 0.38])
    rest = box_points(rng, count // 4, low, [wide, 0.2, 0.8])
    arms = [
        box_points(rng, count // 8, [x, -deep / 2, 0.05], [0.18, deep, 0.55])
        for x in (-wide / 2, wide / 2 - 0.18)
    ]
    return np.concatenate([seat, rest, *arms]), 6


def _lamp(rng: np.random.Generator, count: int, place: Array) -> tuple[Array, int]:
    """Return a standing lamp: a pole with a shade."""
    angle, along = rng.uniform(0, 2 * np.pi, count), rng.random(count)
    shade = np.arange(count) % 2 == 0
    radius = np.where(shade, rng.uniform(0.15, 0.25), 0.015)
    height = np.where(shade, 1.4 + 0.3 * along, 1.4 * along)
    ring = np.stack([radius * np.cos(angle), radius * np.sin(angle), height], 1)
    return place + ring, 7
