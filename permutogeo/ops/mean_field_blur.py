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
            *(count, neighbors.t().reshape(-1), column, reach),
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


@dataclass(frozen=True)
class _Plan:
    """A blur from sums to values.

    Args:
        run: The kernels.
        arguments: Arguments of the blur.
    """

    run: Any
    arguments: list[Any]


class Slots:
    """Rows of labels at the slots of the vertices of one lattice: sums, and filtered values.

    Args:
        main: Slot of each vertex, ``[M]``, that of its first run.
        extra: Slots of further runs, ``[2, E]``: the first slot of the vertex, and the slot.
        sums: Sums at slots, ``[S, width]``.
        values: Values at slots, ``[S, width]``.
        lanes: Lanes of the blocks of a row.
    """

    def __init__(self, main: Tensor, extra: Tensor, sums: Tensor, values: Tensor, lanes: int):
        self._main, self._pairs, self._lanes = main, extra.unbind(), lanes
        self._width = sums.shape[1]
        self._blocks = self._width // lanes
        self._sums, self._values = self._rows(sums), self._rows(values)
        self._planned: dict[tuple[Blur, float], _Plan] = {}
        self._begin: list[int] = []  # of the rings in the workspace
        self._workspace = torch.empty(0, self._width)

    def blur(self, blur: Blur, factor: float) -> None:
        """Blur the sums times a factor to values, on one thread, and set the sums to zero.

        After the first time it runs no operators of torch.
        """
        key = blur, factor
        if key not in self._planned:
            self._planned[key] = self._plan(blur, factor, self._main, self._values)
        self._run(self._planned[key])
        self._spread(self._planned[key].run)

    def blur_to_vertices(self, blur: Blur, factor: float = 1.0) -> Tensor:
        """Return the blurred sums times a factor at vertices, ``[M, width]``, and set the sums to
        zero."""
        out = torch.empty(len(self._main), self._width)
        index = torch.arange(len(self._main), dtype=torch.int32)
        self._run(self._plan(blur, factor, index, self._rows(out)))
        return out

    def gather(self) -> Tensor:
        """Return the sums at vertices, ``[M, width]``, and set the sums to zero."""
        run = self._load(1)
        self._merge(run)
        out = memory.empty(len(self._main), self._width, dtype=torch.float32, device=_CPU)
        bridge.launch(
            run.gather,
            len(self._main),
            *(self._blocks, self._main, self._sums, self._rows(out)),
            device=_CPU,
        )
        return out

    def scatter(self, values: Tensor) -> None:
        """Set the values of all slots to those of their vertices, ``[M, width]``."""
        run = self._load(1)
        index = torch.arange(len(self._main), dtype=torch.int32)
        rows = index, self._main, self._rows(values), self._values
        bridge.launch(run.copy, len(index), self._blocks, *rows, device=_CPU)
        self._spread(run)

    def _plan(self, blur: Blur, factor: float, row: Tensor, out: Tensor) -> _Plan:
        """Prepare a blur.

        Args:
            row: Row of the result of each vertex.
            out: The rows of the result.
        """
        radius, count = len(blur.taps) // 2, len(self._main)
        run = self._load(radius)
        size = max(_SMALLEST_WINDOW, _WINDOW // self._width)
        rings = [min(2 * each + size, count) for each in blur.reach]
        rings = [1 << max(0, rows - 1).bit_length() for rows in rings]
        begin = list(accumulate((rows + 1 for rows in rings), initial=0))
        if begin != self._begin:  # the row behind each ring stays zero
            shape = begin[-1], self._width
            self._workspace = memory.full(*shape, value=0, dtype=torch.float32, device=_CPU)
            self._begin = begin
            self._planned.clear()
        lag = torch.tensor(list(accumulate(blur.reach, initial=0)), dtype=torch.int32)
        ring = torch.tensor([begin[:-1], [rows - 1 for rows in rings]], dtype=torch.int32)
        neighbors = blur.neighbors.t().reshape(-1)
        center, *sides = _normalized(blur.taps, len(rings))
        arguments = [
            *(self._blocks, size, neighbors, blur.column, lag, *ring),
            run.Tap(center, *sides),
            run.Tap(*(factor * tap for tap in (center, *sides))),
            *(self._main, row, self._sums, self._rows(self._workspace), out),
        ]
        return _Plan(run, arguments)

    def _run(self, plan: _Plan) -> None:
        self._merge(plan.run)
        bridge.launch(plan.run.blur, 1, *plan.arguments, device=_CPU)

    def _merge(self, run: Any) -> None:
        """Add the sums of further runs to those of the first one."""
        bridge.launch(run.merge, 1, self._blocks, *self._pairs, self._sums, device=_CPU)

    def _spread(self, run: Any) -> None:
        """Copy values to the slots of further runs."""
        rows = *self._pairs, self._values, self._values
        count = len(self._pairs[0])
        bridge.launch(run.copy, count, self._blocks, *rows, device=_CPU, grain=count + 1)

    def _load(self, radius: int) -> Any:
        key = self._lanes, self._blocks > 1, radius
        return bridge.load_kernels(kernels.make, *key, device=_CPU)

    def _rows(self, rows: Tensor) -> Tensor:
        return rows.view(-1, self._lanes)


def _normalized(taps: Sequence[float], axes: int) -> list[float]:
    """Return the taps of the center and of each side; see ``ops/blur.py``."""
    radius = len(taps) // 2
    gain = sum(tap**axes for tap in taps) ** (-1.0 / axes)
    return [gain * tap for tap in taps[radius:]]
