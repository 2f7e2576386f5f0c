"""Tiles of a plane, and how many points of a tile fit into memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from permutogeo.runtime.memory import total_memory
from permutogeo.typing import Array

# Bytes of a point with its attributes as tensors, beside what the function of the caller takes.
POINT_BYTES = 600
# Tiles along an axis.
_MOST_TILES = 1_000_000


@dataclass(frozen=True)
class Tile:
    """A rectangle in x and y; its lower edges belong to it, its upper edges do not.

    Args:
        low: Lower corner; infinite at the border of the cloud.
        high: Upper corner.
        name: Column and row in the grid, and the quadrants of a divided tile.
    """

    low: tuple[float, float]
    high: tuple[float, float]
    name: str

    def contains(self, pos: Array) -> Array:
        """Return which points ``[N, 2|3]`` belong to the tile."""
        inside = (pos[:, :2] >= self.low) & (pos[:, :2] < self.high)
        return np.asarray(inside.all(axis=1))

    def with_margin(self, margin: float) -> tuple[Array, Array]:
        """Return the corners of the tile widened by a margin on all sides."""
        return np.array(self.low) - margin, np.array(self.high) + margin


def default_memory() -> int:
    """Return a quarter of the machine's memory in bytes."""
    return total_memory(torch.device("cpu")) // 4


class Grid:
    """Square tiles over the bounds of a cloud.

    Args:
        low: Lower corner of the bounds.
        high: Upper corner.
        size: Side of a tile.
    """

    def __init__(self, low: Array, high: Array, size: float):
        self.size = size
        self.origin = np.floor(np.asarray(low[:2], np.float64) / size) * size
        counts = np.floor((np.asarray(high[:2]) - self.origin) / size) + 1
        if not (np.isfinite(counts).all() and counts.max() <= _MOST_TILES):
            raise ValueError(
                f"Expected tiles of at least {np.ptp([low, high], axis=0).max() / _MOST_TILES:g} "
                f"for a cloud from {low.tolist()} to {high.tolist()} (got {size:g})"
            )
        self.shape = int(counts[0]), int(counts[1])
        self._edges = [self.origin[i] + size * np.arange(1, self.shape[i]) for i in (0, 1)]

    def cell(self, x: Array, y: Array) -> Array:
        """Return the number of the tile of each point; points out of bounds go to the border."""
        column = np.searchsorted(self._edges[0], x, side="right")
        return column * self.shape[1] + np.searchsorted(self._edges[1], y, side="right")

    def tile(self, cell: int) -> Tile:
        """Return a tile by its number."""
        place = divmod(cell, self.shape[1])
        low, high = ([self._edge(i, place[i] + k) for i in (0, 1)] for k in (0, 1))
        return Tile((low[0], low[1]), (high[0], high[1]), f"{place[0]:05d}_{place[1]:05d}")

    def _edge(self, axis: int, number: int) -> float:
        inner = self._edges[axis]
        if number == 0:
            return -math.inf
        return float(inner[number - 1]) if number <= len(inner) else math.inf

    def cells_in(self, low: Array, high: Array) -> Iterator[int]:
        """Yield the numbers of the tiles that meet a box."""
        first = [int(np.searchsorted(self._edges[i], low[i], side="right")) for i in (0, 1)]
        last = [int(np.searchsorted(self._edges[i], high[i], side="right")) for i in (0, 1)]
        for column in range(first[0], last[0] + 1):
            for row in range(first[1], last[1] + 1):
                yield column * self.shape[1] + row

    def quarter(self, tile: Tile) -> list[Tile]:
        """Return the four quadrants of a tile; an infinite side is cut at the bounds."""
        cuts = []
        for i in (0, 1):
            end = float(self.origin[i]), float(self.origin[i] + self.size * self.shape[i])
            low, high = max(tile.low[i], end[0]), min(tile.high[i], end[1])
            cuts.append((tile.low[i], (low + high) / 2, tile.high[i]))
        return [
            Tile(
                (cuts[0][i], cuts[1][j]),
                (cuts[0][i + 1], cuts[1][j + 1]),
                f"{tile.name}.{2 * i + j}",
            )
            for i in (0, 1)
            for j in (0, 1)
        ]

    def side(self, tile: Tile) -> float:
        """Return the side of a tile or of a divided tile."""
        return self.size / 2 ** (tile.name.count("."))


def points_in_memory(memory: int, bytes_per_point: int) -> int:
    """Return how many points of a tile fit into memory."""
    return max(memory // (bytes_per_point + POINT_BYTES), 1)


def choose_size(low: Array, high: Array, num_points: int, margin: float, most: int) -> float:
    """Return the side of a tile that, with its margin, holds half of the points that fit.

    Args:
        low: Lower corner of the cloud.
        high: Upper corner.
        num_points: Number of points of the cloud.
        margin: Width of the margin.
        most: Number of points that fit into memory.
    """
    extent = np.maximum(np.asarray(high[:2]) - np.asarray(low[:2]), 1e-9)
    widest = float(extent.max())
    if num_points <= most // 2:
        return max(widest * 1.001, margin, 1e-6)
    side = math.sqrt(most / 2 / num_points * float(extent.prod())) - 2 * margin
    return max(min(side, widest * 1.001), margin, 1e-6)
