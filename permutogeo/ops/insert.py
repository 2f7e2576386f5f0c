"""Insertion of points into one hash table from all threads of the CPU, and numbering of the codes.

See ``kernels/insert.py`` for the two kinds of tables.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from permutogeo.kernels import insert as kernels
from permutogeo.kernels.insert import CHUNK, FREE
from permutogeo.ops.table import power_of_two, shift, sort_unique
from permutogeo.runtime import bridge, memory, threads

_CPU = torch.device("cpu")
_MOST_FIRST_SLOTS = 2**18
# Small tables grow by what is expected, large ones by two: they take most of the memory of a build.
_LARGE, _MOST_GROWTH = 2**21, 16
# Fewest points for which another thread pays, and for which runs shorter than one a thread pay.
_FEWEST_POINTS, _MANY_POINTS = 8192, 2**18
# Fewest slots in the part of a thread.
_FEWEST_SLOTS = 2**16


def fits_packed(box: torch.Tensor) -> bool:
    """Return whether the codes of a box fit the slots of a packed table."""
    return box.shape[1] == 3 and int(box[-1, 1] * box[-1, 2]) <= 2**32


class InsertionTable:
    """Hash table of the codes of all corners on the CPU.

    Args:
        count: Number of points.
        corners: Corners of each point.
        words: Words of a code.
        packed: Whether codes have at most 32 bits.
    """

    def __init__(self, count: int, corners: int, words: int, packed: bool):
        self.count, self.corners, self.words, self.packed = count, corners, words, packed
        wanted = threads.count()
        if wanted > 1 and count >= _MANY_POINTS:
            wanted *= threads.PIECES_PER_THREAD
        self.runs = max(1, min(wanted, count // _FEWEST_POINTS))
        edge = [count * t // self.runs for t in range(self.runs + 1)]
        self.next, self.end = torch.tensor(edge[:-1]), torch.tensor(edge[1:])
        self.workspace = torch.empty(self.runs * CHUNK * corners, words, dtype=torch.int64)
        self.tools = bridge.load_kernels(kernels.make_tools, words, packed, device=_CPU)
        least = max(8 * CHUNK * corners, count)
        self._allocate(min(_MOST_FIRST_SLOTS, power_of_two(least)))
        block = self.block
        own = [[t * block, (t + 1) * block] for t in range(self.runs)]
        self.own = torch.tensor(own, dtype=torch.int32)
        self.taken = torch.tensor([self.runs * block], dtype=torch.int32)

    def insert(
        self, run: Any, arguments: list[Any], weight: torch.Tensor, vertex: torch.Tensor
    ) -> None:
        """Embed all points and insert their corners, growing the table where needed.

        Args:
            run: The kernels of ``kernels/insert.py``.
            arguments: Arguments of ``insert`` before ``end``.
            weight: Barycentric weights ``[N, corners]``, written.
            vertex: Numbers of the corners ``[N, corners]`` int32, written.
        """
        while True:
            bridge.launch(
                run.insert,
                self.runs,
                *(*arguments, self.end, shift(self.capacity), self._limit()),
                *(int(self.runs > 1), self.block, self.taken, self.slots, self.list),
                *(self.own, self.next, self.workspace, weight, vertex),
                device=_CPU,
                grain=1,
            )
            if torch.equal(self.next, self.end):
                return
            self._grow()

    def number(self, vertex: torch.Tensor) -> torch.Tensor:
        """Replace the numbers in ``vertex`` by positions in the ascending list of all codes.

        Returns:
            That list, ``[M, words]``. The table is used up.
        """
        code, position = self._unpack() if self.packed else self._rank()
        flat, scattered = vertex.view(-1), memory.exceeds_cache(position)
        arguments = (scattered, position, flat)
        bridge.launch(self.tools.renumber, flat.shape[0], *arguments, device=_CPU, grain=8192)
        return code

    def _unpack(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the ascending codes, and the position in them of each number."""
        entry = self._taken_slots()
        count = entry.shape[0]
        entry.numpy().view(np.uint64).sort()  # NumPy's sort uses SIMD
        code = memory.empty(count, self.words, dtype=torch.int64, device=_CPU)
        position = memory.empty(int(self.taken), dtype=torch.int32, device=_CPU)
        arguments = (entry, code, position)
        bridge.launch(self.tools.unpack, count, *arguments, device=_CPU, grain=8192)
        return code, position

    def _taken_slots(self) -> torch.Tensor:
        """Return the taken slots of a packed table, and release it."""
        slots, parts = self.slots, self._parts(self.capacity)
        del self.slots
        part = self.capacity // parts
        count = torch.empty(parts, dtype=torch.int32)
        bridge.launch(self.tools.compact, parts, part, slots, count, device=_CPU, grain=1)
        if parts == 1:
            return slots[: int(count)]
        found = [slots[t * part :][:n] for t, n in enumerate(count.tolist())]
        out = memory.empty(int(count.sum()), dtype=torch.int64, device=_CPU)
        for target, source in zip(out.split(count.tolist()), found, strict=True):
            memory.copy(target, source)
        return out

    @staticmethod
    def _parts(entries: int) -> int:
        """Return the parts of a table or list for the threads, a power of two."""
        most = min(threads.count(), entries // _FEWEST_SLOTS)
        return 1 << max(0, most.bit_length() - 1)

    def _rank(self) -> tuple[torch.Tensor, torch.Tensor]:
        used = self._used_list()
        code = sort_unique([used[: len(used)]])
        code = code[int((self.own[:, 1] - self.own[:, 0]).sum()) :]
        position = memory.empty(len(used), dtype=torch.int32, device=_CPU)
        arguments = (code, shift(self.capacity), self.slots, used, position)
        bridge.launch(self.tools.rank, len(code), *arguments, device=_CPU, grain=8192)
        return code, position

    def _used_list(self) -> torch.Tensor:
        """Return the listed codes by number, negative where a run has not used a number."""
        for first, last in self.own.tolist():
            self.list[first:last] = -1
        return self.list[: int(self.taken)]

    def _grow(self) -> None:
        """Move the codes into a larger table."""
        old = self.slots if self.packed else self._used_list()
        del self.slots
        self._allocate(self._next_capacity())
        parts = self._parts(len(old))
        bridge.launch(
            self.tools.move,
            parts,
            *(-(-len(old) // parts), old, self.list),
            *(shift(self.capacity), int(parts > 1), self.slots),
            device=_CPU,
            grain=1,
        )

    def _next_capacity(self) -> int:
        """Return the slots for the codes of all points, if codes per point stay as so far."""
        if self.capacity >= _LARGE:
            return 2 * self.capacity
        left = int((self.end - self.next).sum())
        done = max(1, self.count - left)
        wanted = power_of_two(int(self.taken) * self.count * 8 // (5 * done))
        return min(max(wanted, 2 * self.capacity), _MOST_GROWTH * self.capacity, _LARGE)

    def _allocate(self, capacity: int) -> None:
        """Allocate free slots, and room for as many listed codes as they may hold."""
        self.capacity = capacity
        # A run takes at most one block of numbers for the corners of a chunk.
        self.block = max(CHUNK * self.corners, capacity >> 10)
        kind = torch.int64 if self.packed else torch.int32
        self.slots = memory.full(capacity, value=FREE, dtype=kind, device=_CPU)
        room = 0 if self.packed else self._limit() + (self.runs + 1) * self.block
        self.list = memory.empty(max(room, 0), self.words, dtype=torch.int64, device=_CPU)

    def _limit(self) -> int:
        """Numbers taken at which the table grows: probes stay short up to a load of 5/8."""
        return self.capacity * 5 // 8 - self.runs * self.block
