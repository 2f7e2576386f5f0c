"""Generated street scenes with labels."""

from __future__ import annotations

import numpy as np

from permutogeo.datasets.scanned_scenes import ScannedScenes, box_points
from permutogeo.typing import Array


class StreetScenes(ScannedScenes):
    r"""Scans of streets that are generated, with a label at each point.

    A street with buildings on both sides, parked vehicles, trees and poles is sampled with the
    density of a scanner in its middle, which falls with the squared distance. Heights of the ground
    vary. Nothing is read or downloaded. A scene is generated at first use and cached.

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
        >>> from permutogeo.datasets import StreetScenes
        >>> StreetScenes(2, num_points=500)[0]
        Data(x=[500, 1], y=[500], pos=[500, 3])
    """

    #: Names of the classes, indexed by ``y``.
    classes = ("ground", "building", "vehicle", "tree", "pole")
    num_classes = 5

    def surfaces(self, rng: np.random.Generator, count: int) -> tuple[Array, Array]:
        parts = [_ground(rng, count), *_objects(rng, count)]
        pos = np.concatenate([points for points, _ in parts])
        label = np.concatenate([np.full(len(points), y) for points, y in parts])
        slope = rng.normal(0, 0.01, 2)
        pos[:, 2] += pos[:, :2] @ slope + 0.1 * np.sin(pos[:, 0] / rng.uniform(8, 20))
        return pos, label


def _ground(rng: np.random.Generator, count: int) -> tuple[Array, int]:
    plane = rng.uniform([-40, -12, 0], [40, 12, 0], (count // 2, 3))
    curb = np.abs(plane[:, 1]) > 5
    plane[curb, 2] += 0.12
    return plane, 0


def _objects(rng: np.random.Generator, count: int) -> list[tuple[Array, int]]:
    """Return points and label of each object along the street."""
    found = []
    for side in (-1, 1):
        x = -40.0
        while x < 36:
            width, height = rng.uniform(6, 14), rng.uniform(4, 15)
            low = [x, side * rng.uniform(9, 11), 0]
            found.append((box_points(rng, count // 20, low, [width, side * 8, height]), 1))
            x += width + rng.choice([0, 2.5])
        for x in np.arange(-36, 36, 8.0):
            place = [x + rng.uniform(0, 2), side * rng.uniform(3.6, 4.4), 0.25]
            kind = rng.random()
            if kind < 0.55:
                found.append((_vehicle(rng, count // 60, place), 2))
            if kind > 0.35:
                place[0], place[1] = place[0] + 4, side * rng.uniform(6.2, 7.5)
                near = _tree if rng.random() < 0.6 else _pole
                found.append((near(rng, count // 60, place), 3 if near is _tree else 4))
    return found


def _vehicle(rng: np.random.Generator, count: int, place: list) -> Array:
    length, width, height = rng.uniform(3.6, 5), rng.uniform(1.6, 1.9), rng.uniform(0.6, 0.8)
    body = box_points(rng, count // 2, place, [length, width, height])
    above = [place[0] + 0.2 * length, place[1] + 0.1, place[2] + height]
    return np.concatenate(
        [body, box_points(rng, count // 2, above, [0.55 * length, width - 0.2, 0.6])]
    )


def _pole(rng: np.random.Generator, count: int, place: list) -> Array:
    angle, height = rng.uniform(0, 2 * np.pi, count // 3), rng.uniform(0, 6, count // 3)
    ring = np.stack([0.08 * np.cos(angle), 0.08 * np.sin(angle), height], 1)
    return np.asarray(place) + ring


def _tree(rng: np.random.Generator, count: int, place: list) -> Array:
    trunk = _pole(rng, count // 2, place) * [1, 1, 0.5]
    leaves = rng.normal(0, 1, (count, 3))
    leaves *= rng.uniform(0.8, 1.6) / np.linalg.norm(leaves, axis=1, keepdims=True)
    leaves *= rng.random((count, 1)) ** (1 / 3)
    crown = np.add(place, (0, 0, 3.8))
    return np.concatenate([trunk, crown + leaves])
