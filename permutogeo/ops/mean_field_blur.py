"""Separable blur of the sums of mean field at the vertices of one lattice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from permutogeo.kernels import mean_field_blur as kernels
from permutogeo.ops import stencils
from permutogeo.runtime import bridge, memory

_CPU = torch.device("cpu")
# Numbers in the window of a blur, which stays in the cache.
_WINDOW = 4096
_SMALLEST_WINDOW = 64
# Kernels index the neighbors of an axis by 32 bits.
_MOST_NEIGHBORS = 2**31 - 1
_EVERY = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Blur:
    """Separable blur on a lattice.

    Args:
        neighbors: Neighbors along the axes ``[M, K]`` int32, stored by column.
        taps: Taps along each axis, symmetric.
        column: Where the columns of each axis begin, ``[axes, sides]`` int32.
        reach: Largest distance between the numbers of two neighbors on each axis.
    """

    neighbors: Tensor
    taps: tuple[float, ...]
    column: Tensor
    reach: tuple[int, ...]

    @classmethod
    def on(cls, neighbors: Tensor, dim: int, taps: Sequence[float]) -> Blur | None:
        """Return the blur on a lattice of ``dim`` dimensions; ``None`` if it is too large."""
        if neighbors.numel() > _MOST_NEIGHBORS or len(taps) < 3:
            return None
        neighbors = neighbors.t().contiguous().t()
        count, radius = len(neighbors), len(taps) // 2
        column = (stencils.axis_columns(dim, radius) * count).to(torch.int32).contiguous()
        reach = torch.empty(len(column), dtype=torch.int32)
        run = bridge.load_kernels(kernels.make_reach, radius, device=_CPU)
        bridge.launch(
            run.reach,
            len(column),
            *(count, bridge.array(neighbors.t().reshape(-1), 1)),
            *(bridge.array(column, 1), bridge.array(reach, 1)),
            device=_CPU,
            grain=2,
        )
        return cls(neighbors, tuple(taps), column, tuple(reach.tolist()))


@dataclass(frozen=True, eq=False)
class BlurFilter:
    """A blur times a factor as the filter of a step.

    Args:
        mix: Applied to the result ``[M, L]``, if there is one.
    """

    blur: Blur
    factor: float
    mix: Callable[[Tensor], Tensor] | None = None


class Sums:
    """Sums at the slots of the vertices of one lattice, for rows of labels.

    Args:
        slots: Slot of each vertex, ``[M]``, that of its first run.
        extra: Slots of further runs, ``[2, E]``: the slot to add to, and the slot.
        width: Numbers of a row, padded.
        lanes: Lanes of the blocks of a row.
    """

    def __init__(self, slots: Tensor, extra: Tensor, width: int, lanes: int):
        self._slots, self._extra, self._width, self._lanes = slots, extra, width, lanes
        self._blocks = width // lanes
        self._begin: list[int] = []  # of the rings in the workspace
        self._workspace = torch.empty(0, width)

    def blur(self, sums: Tensor, blur: Blur, factor: float, out: Tensor) -> None:
        """Blur the sums, on one thread, and set them to zero.

        Args:
            sums: ``[S, width]``.
            out: Values at vertices, ``[M, width]``, written.
        """
        radius, count = len(blur.taps) // 2, len(self._slots)
        run = self._load(radius)
        self._merge(run, sums)
        size = max(_SMALLEST_WINDOW, _WINDOW // self._width)
        rings = [min(2 * each + size, count) for each in blur.reach]
        rings = [1 << max(0, rows - 1).bit_length() for rows in rings]
        begin = list(accumulate((rows + 1 for rows in rings), initial=0))
        if begin != self._begin:  # the row behind each ring stays zero
            shape = begin[-1], self._width
            self._workspace = memory.full(*shape, value=0, dtype=torch.float32, device=_CPU)
            self._begin = begin
        lag = list(accumulate(blur.reach, initial=0))
        plan = torch.tensor(
            [lag, [*begin[:-1], 0], [*(rows - 1 for rows in rings), _EVERY]], dtype=torch.int32
        )
        center, *sides = _normalized(blur.taps, len(rings))
        bridge.launch(
            run.blur,
            1,
            *(self._blocks, size, bridge.array(blur.neighbors.t().reshape(-1), 1)),
            bridge.array(blur.column, 1),
            *(bridge.array(each, 1) for each in plan),
            run.Tap(center, *sides),
            run.Tap(*(factor * tap for tap in (center, *sides))),
            *(bridge.array(self._slots, 1), self._rows(sums)),
            *(self._rows(self._workspace), self._rows(out)),
            device=_CPU,
        )

    def gather(self, sums: Tensor, out: Tensor) -> None:
        """Move the sums to vertices ``[M, width]`` and set them to zero."""
        run = self._load(1)
        self._merge(run, sums)
        bridge.launch(
            run.gather,
            len(self._slots),
            *(self._blocks, bridge.array(self._slots, 1)),
            *(self._rows(sums), self._rows(out)),
            device=_CPU,
        )

    def _merge(self, run: Any, sums: Tensor) -> None:
        """Add the sums of further runs to those of the first one."""
        slots = (bridge.array(each, 1) for each in self._extra)
        bridge.launch(run.merge, 1, self._blocks, *slots, self._rows(sums), device=_CPU)

    def _load(self, radius: int) -> Any:
        key = self._lanes, self._blocks > 1, radius
        return bridge.load_kernels(kernels.make, *key, device=_CPU)

    def _rows(self, rows: Tensor) -> Any:
        return bridge.array(rows.view(-1, self._lanes), 1)


def expand(owner: Tensor, values: Tensor, out: Tensor) -> None:
    """Copy values at vertices ``[M, lanes]`` to their slots ``[S, lanes]``.

    Args:
        owner: Vertex of each slot, ``-1`` for none.
    """
    run = bridge.load_kernels(kernels.make, values.shape[1], False, 1, device=_CPU)
    arrays = (bridge.array(each, 1) for each in (owner, values, out))
    bridge.launch(run.expand, len(owner), *arrays, device=_CPU, grain=16384)


def _normalized(taps: Sequence[float], axes: int) -> list[float]:
    """Return the taps of the center and of each side; see ``ops/blur.py``."""
    radius = len(taps) // 2
    gain = sum(tap**axes for tap in taps) ** (-1.0 / axes)
    return [gain * tap for tap in taps[radius:]]
