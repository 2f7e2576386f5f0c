"""Procedural textures of materials."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import ndimage

from permutogeo.typing import Array

Rng = np.random.Generator


def fractal_noise(shape: tuple[int, int], rng: Rng, finest: float = 1.0, octaves: int = 4) -> Array:
    """Return smoothed noise of several scales, of mean 0 and standard deviation 1."""
    total = np.zeros(shape)
    for octave in range(octaves):
        smooth = ndimage.gaussian_filter(rng.normal(size=shape), finest * 2**octave, mode="wrap")
        total += 2**octave * smooth / smooth.std()
    return (total - total.mean()) / total.std()


def _rotated(shape: tuple[int, int], rng: Rng) -> tuple[Array, Array]:
    """Return pixel coordinates along two axes of a random direction."""
    y, x = np.indices(shape, dtype=np.float64)
    angle, shift = rng.uniform(0, np.pi), rng.uniform(0, 100, 2)
    across = np.cos(angle) * x + np.sin(angle) * y + shift[0]
    return across, np.cos(angle) * y - np.sin(angle) * x + shift[1]


def brick(shape: tuple[int, int], rng: Rng) -> Array:
    """Rows of blocks with joints, each row shifted by half a block."""
    u, v = _rotated(shape, rng)
    height = rng.uniform(6, 9)
    row = np.floor(v / height)
    u = u / (2.2 * height) + 0.5 * (row % 2)
    block = (np.floor(u) * 7 + row * 13).astype(np.int64) % 31
    tone = 0.12 * rng.normal(size=31)[block]
    joint = (v % height < 1.5) | (u % 1.0 < 1.5 / (2.2 * height))
    return np.where(joint, 0.5, tone)


def tile(shape: tuple[int, int], rng: Rng) -> Array:
    """A square grid of thin joints."""
    u, v = _rotated(shape, rng)
    side = rng.uniform(8, 13)
    return np.where((u % side < 1.3) | (v % side < 1.3), -0.45, 0.0)


def wood(shape: tuple[int, int], rng: Rng) -> Array:
    """Bent, long grain."""
    u, v = _rotated(shape, rng)
    bent = v + 2.5 * fractal_noise(shape, rng, 6.0, 2)
    grain = np.sin(2 * np.pi * bent / rng.uniform(5, 8)) + np.sin(2 * np.pi * bent / 2.7)
    return 0.11 * grain + 0.03 * np.sin(u / 9)


def fabric(shape: tuple[int, int], rng: Rng) -> Array:
    """A fine weave."""
    u, v = _rotated(shape, rng)
    thread = 2 * np.pi / rng.uniform(2.6, 3.4)
    return 0.16 * np.sin(thread * u) * np.sin(thread * v) + 0.03 * rng.normal(size=shape)


def stone(shape: tuple[int, int], rng: Rng) -> Array:
    """Speckles of several sizes."""
    return 0.13 * fractal_noise(shape, rng, 0.8, 2)


def marble(shape: tuple[int, int], rng: Rng) -> Array:
    """Smooth clouds with thin veins."""
    cloud = fractal_noise(shape, rng, 4.0, 2)
    return 0.05 * cloud - 0.35 * np.exp(-np.square(cloud / 0.12))


def metal(shape: tuple[int, int], rng: Rng) -> Array:
    """Brushed along one direction, with a highlight."""
    _, v = _rotated(shape, rng)
    line = ndimage.gaussian_filter1d(rng.normal(size=400), 0.6)
    brushed = np.interp(v % 399, np.arange(400), line)
    center = v.min() + rng.uniform(0.2, 0.8) * np.ptp(v)
    return 0.08 * brushed / line.std() + 0.3 * np.exp(-np.square((v - center) / 14))


def paint(shape: tuple[int, int], rng: Rng) -> Array:
    """A plain surface."""
    return 0.01 * fractal_noise(shape, rng, 3.0, 2)


#: Relative deviations of the reflectance, ``[H, W]``, by material.
TEXTURES: dict[str, Callable[[tuple[int, int], Rng], Array]] = {
    each.__name__: each for each in (brick, tile, wood, fabric, stone, marble, metal, paint)
}
