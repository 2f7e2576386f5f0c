"""Generated airborne surveys of any size: hills, buildings, trees and noise, with true labels."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from permutogeo.data.files import replacing, suffix_of
from permutogeo.data.formats.las import LasStream
from permutogeo.data.formats.las_records import new_layout

Array = np.ndarray[Any, Any]

# Classes of the LAS standard.
GROUND, TREE, BUILDING, OUTLIER = 2, 5, 6, 7
# Points that are generated at a time.
CHUNK = 500_000
# Lower left corner of a survey: coordinates of a UTM zone.
ORIGIN = (500_000.0, 5_400_000.0, 300.0)
_CELL = 40.0  # side of a plot with a building, a tree or nothing, in metres
_OUTLIERS = 0.002  # fraction of points far above or below everything
_WAVES = np.random.default_rng(7).normal(size=(12, 2))


def ground_height(x: Array, y: Array) -> Array:
    """Return the height of the bare terrain: a sum of waves of 30 m to 2 km."""
    height = np.zeros_like(x)
    for index, (a, b) in enumerate(_WAVES):
        length = 30.0 * 1.45**index
        scale = 2 * np.pi / (length * np.hypot(a, b))
        height += length / 150 * np.sin((a * x + b * y) * scale + index)
    return height


def _hash(column: Array, row: Array, salt: int) -> Array:
    """Return numbers in [0, 1) that depend on the plot alone."""
    code = column.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    code ^= row.astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F) + np.uint64(salt * 2654435761)
    code ^= code >> np.uint64(29)
    code *= np.uint64(0xBF58476D1CE4E5B9)
    code ^= code >> np.uint64(32)
    return (code >> np.uint64(11)).astype(np.float64) / 2.0**53


def surface(x: Array, y: Array, random: Array) -> tuple[Array, Array]:
    """Return height and class of the point that a beam at ``(x, y)`` meets.

    Args:
        x: Coordinates from the origin of the survey.
        y: The same.
        random: Numbers in [0, 1), for crowns that are hit at any depth.
    """
    column, row = np.floor(x / _CELL), np.floor(y / _CELL)
    place_x, place_y = x - (column + 0.5) * _CELL, y - (row + 0.5) * _CELL
    kind, width, depth, tall = (_hash(column, row, salt) for salt in range(4))
    height, label = ground_height(x, y), np.full(len(x), GROUND)
    # A building is level: it stands on the height of the middle of its plot.
    base = ground_height((column + 0.5) * _CELL, (row + 0.5) * _CELL)
    house = (kind < 0.45) & (abs(place_x) < 5 + 10 * width) & (abs(place_y) < 5 + 10 * depth)
    gable = (1 - abs(place_x) / (5 + 10 * width)) * 4 * (kind < 0.25)
    height = np.where(house, base + 4 + 12 * tall + gable, height)
    label = np.where(house, BUILDING, label)
    radius = 3 + 4 * width
    far = np.hypot(place_x, place_y)
    tree = (kind > 0.7) & (far < radius)
    crown = 4 + 8 * tall + np.sqrt(np.maximum(radius**2 - far**2, 0)) * (2 * random - 1)
    tree &= random > 0.25  # some beams reach the ground
    height = np.where(tree, height + crown, height)
    return height, np.where(tree, TREE, label)


def terrain_points(
    num_points: int, density: float = 8.0, noise: float = 0.05, seed: int = 0
) -> Iterator[dict[str, Array]]:
    """Yield the points of a survey strip by strip, as fields of a LAS file.

    ``classification`` is the true class, ``clean_z`` the height without noise.

    Args:
        num_points: Number of points.
        density: Points per square metre.
        noise: Standard deviation of the noise of x, y and z, in metres.
        seed: Seed of the points; the terrain is always the same.
    """
    if num_points < 1 or not density > 0 or not noise >= 0:
        got = f"{num_points} points of density {density}, noise {noise}"
        raise ValueError(f"Expected points, a positive density and noise of at least 0 (got {got})")
    side = (num_points / density) ** 0.5
    count = -(-num_points // CHUNK)
    edges = np.linspace(0, num_points, count + 1).round().astype(np.int64)
    for strip in range(count):
        rng = np.random.default_rng((seed, strip))
        number = int(edges[strip + 1] - edges[strip])
        low, high = edges[strip] / num_points * side, edges[strip + 1] / num_points * side
        x, y = rng.random(number) * side, low + np.sort(rng.random(number)) * (high - low)
        height, label = surface(x, y, rng.random(number))
        pos = np.stack([x, y, height], axis=1) + rng.normal(0, noise, (number, 3))
        wild = rng.random(number) < _OUTLIERS
        pos[wild, 2] += rng.choice([-1, 1], wild.sum()) * rng.uniform(5, 60, wild.sum())
        label = np.where(wild, OUTLIER, label)
        strength = np.array([0, 0, 40, 0, 0, 20, 60, 10])[label] * 256
        yield {
            "pos": pos + ORIGIN,
            "intensity": strength + rng.integers(0, 2048, number),
            "return_number": np.ones(number, np.int64),
            "number_of_returns": np.ones(number, np.int64),
            "classification": label.astype(np.int64),
            "gps_time": 1e9 + (edges[strip] + np.arange(number)) * 1e-5,
            "clean_z": height + ORIGIN[2],
        }


def write_terrain(
    path: str | os.PathLike[str],
    num_points: int,
    density: float = 8.0,
    noise: float = 0.05,
    seed: int = 0,
    on_progress: Callable[[float], None] | None = None,
) -> Path:
    """Write a survey as LAS or LAZ, in constant memory.

    Args:
        path: The file.
        num_points: Number of points; see :func:`terrain_points` for the other arguments.
        on_progress: Called with the completed fraction in [0, 1].

    Example:
        >>> import tempfile
        >>> from permutogeo.data import from_point_cloud
        >>> from permutogeo.datasets import write_terrain
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     data = from_point_cloud(write_terrain(f"{folder}/survey.laz", 2000))
        >>> data.pos.shape
        torch.Size([2000, 3])
    """
    target = Path(path)
    suffix_of(target, (".las", ".laz"))
    layout = new_layout(ORIGIN, 0.001)  # that of the first strip would have no room for the last
    with replacing(target) as temporary, LasStream(temporary) as stream:
        for fields in terrain_points(num_points, density, noise, seed):
            stream.write({**fields, **layout})
            if on_progress is not None:
                on_progress(stream.num_points / num_points)
    return target
