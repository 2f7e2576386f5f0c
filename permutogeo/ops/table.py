"""Hash tables of lattice codes: one per thread during a build, and one for look-ups."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from permutogeo.kernels import table as kernels
from permutogeo.kernels.build import CHUNK
from permutogeo.ops._library import define
from permutogeo.runtime import bridge, memory, threads

# Most codes in one hash table: slots are indexed by 32 bits, and half of them stay free.
MOST_CODES = 2**29
_CPU = torch.device("cpu")
_MOST_FIRST_SLOTS = 2**19
# Small tables grow by what is expected, large ones by two: they take most of the memory of a build.
_LARGE, _MOST_GROWTH = 2**21, 16
# Slots of a table that does not fit the cache.
_PREFETCHED = 2**20
# Fewest points for which another table pays.
_FEWEST_POINTS = 8192


class ThreadTables:
    """Hash tables on the CPU, one for each thread's run of consecutive points.

    Each table numbers its own codes in the order of insertion. :meth:`merge` sorts the codes of all
    tables into one list, and :meth:`renumber` turns the tables' numbers into positions in it, so
    that the result does not depend on the number of tables.

    Args:
        count: Number of points.
        corners: Corners of each point.
        words: Words of a code.
    """

    def __init__(self, count: int, corners: int, words: int):
        self.corners, self.words = corners, words
        self.tables = max(1, min(threads.count(), count // _FEWEST_POINTS))
        self.first = torch.tensor([count * t // self.tables for t in range(self.tables + 1)])
        self.next, self.end = self.first[:-1].clone(), self.first[1:].clone()
        self.size = torch.zeros(self.tables, dtype=torch.int32)
        self.kernels = bridge.load_kernels(kernels.make, words, device=_CPU)
        self.workspace = torch.empty(self.tables, CHUNK * corners, words, dtype=torch.int64)
        least = max(8 * CHUNK * corners, count // self.tables)
        self._allocate(min(_MOST_FIRST_SLOTS, power_of_two(least)))

    def insert(
        self, run: Any, arguments: list[Any], weight: torch.Tensor, vertex: torch.Tensor
    ) -> None:
        """Embed all points and insert their corners, growing the tables where needed.

        Args:
            run: The kernels of ``kernels/build.py``.
            arguments: Arguments of ``insert`` before ``end``.
            weight: Barycentric weights ``[N, corners]``, written.
            vertex: Numbers of the corners in their table ``[N, corners]`` int32, written.
        """
        while True:
            self._launch(
                run.insert if self.capacity < _PREFETCHED else run.insert_chunks,
                *arguments,
                bridge.array(self.end, 1),
                shift(self.capacity),
                _most_codes(self.capacity) - CHUNK * self.corners,
                *(bridge.array(self.slots, 2), bridge.array(self.code, 2)),
                *(bridge.array(self.size, 1), bridge.array(self.next, 1)),
                bridge.array(self.workspace, 2),
                *(bridge.array(weight, 1), bridge.array(vertex, 1)),
            )
            if torch.equal(self.next, self.end):
                return
            self._grow()

    def merge(self) -> torch.Tensor:
        """Return the distinct codes of all tables, ascending, ``[M, words]``."""
        return sort_unique([self.code[t, :size] for t, size in enumerate(self.size.tolist())])

    def renumber(self, merged: torch.Tensor, vertex: torch.Tensor) -> None:
        """Replace the tables' own numbers in ``vertex`` by positions in ``merged``."""
        number = torch.empty(self.tables, int(self.size.max()), dtype=torch.int32)
        first = (self.first * self.corners).to(torch.int32)
        self._launch(
            self.kernels.renumber,
            *(bridge.array(merged, 1), bridge.array(self.code, 2)),
            shift(self.capacity),
            bridge.array(self.slots, 2),
            *(bridge.array(first, 1), bridge.array(number, 2), bridge.array(vertex.view(-1), 1)),
        )

    def _grow(self) -> None:
        """Move the codes into larger tables."""
        del self.slots
        code = self.code
        self._allocate(self._next_capacity())
        for t, size in enumerate(self.size.tolist()):
            memory.copy(self.code[t, :size], code[t, :size])
        del code
        self._launch(
            self.kernels.insert,
            *(bridge.array(self.code, 2), bridge.array(self.size, 1)),
            shift(self.capacity),
            bridge.array(self.slots, 2),
        )

    def _next_capacity(self) -> int:
        """Return the slots for the codes of all points, if codes per point stay as so far."""
        if self.capacity >= _LARGE:
            return 2 * self.capacity
        points, done = self.first.diff(), (self.next - self.first[:-1]).clamp(min=1)
        wanted = power_of_two(int((self.size * points * 8 // (5 * done)).max()))
        return min(max(wanted, 2 * self.capacity), _MOST_GROWTH * self.capacity, _LARGE)

    def _allocate(self, capacity: int) -> None:
        """Allocate free slots, and room for as many codes as they may hold."""
        self.capacity = capacity
        tables, room = self.tables, _most_codes(capacity)
        self.slots = memory.full(tables, capacity, value=-1, dtype=torch.int32, device=_CPU)
        self.code = memory.empty(tables, room, self.words, dtype=torch.int64, device=_CPU)

    def _launch(self, kernel: Any, *arguments: Any) -> None:
        bridge.launch(kernel, self.tables, *arguments, device=_CPU, grain=1)


def claim(code: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Insert codes ``[n, words]`` with duplicates into one table by compare-and-swap.

    Returns:
        ``slots``, the table, and ``owner`` ``[n]``: one index for all equal codes.
    """
    device, count = code.device, len(code)
    tools = bridge.load_kernels(kernels.make, code.shape[1], device=device)
    slots = torch.full((hash_capacity(count),), -1, dtype=torch.int32, device=device)
    owner = torch.empty(count, dtype=torch.int32, device=device)
    bridge.launch(
        tools.claim,
        count,
        bridge.array(code, 1),
        shift(len(slots)),
        *(bridge.array(slots, 1), bridge.array(owner, 1)),
        device=device,
        grain=count,  # one thread on the CPU, where Warp's atomics are not atomic
    )
    return slots, owner


def shift(capacity: int) -> int:
    """Return how far a 64-bit hash is shifted right to index ``capacity`` slots."""
    return 64 - (capacity.bit_length() - 1)


def hash_capacity(count: int) -> int:
    """Return the number of slots for ``count`` codes: at most half of them are taken."""
    if count > MOST_CODES:
        raise ValueError(
            f"Expected at most {MOST_CODES} vertices in one hash table (got {count}); build one "
            f"lattice per part of the cloud"
        )
    return power_of_two(2 * count)


def power_of_two(least: int) -> int:
    """Return the smallest power of two that is at least ``least`` and 16."""
    return max(16, 1 << (least - 1).bit_length())


def sort_unique(lists: list[torch.Tensor]) -> torch.Tensor:
    """Return the distinct codes of several lists ``[n, words]``, ascending.

    Codes within a list are distinct.
    """
    codes = np.concatenate([part.numpy() for part in lists])  # NumPy's sort uses SIMD
    if codes.shape[1] == 1:
        codes[:, 0].sort()
    else:
        codes = codes[np.lexsort(codes.T[::-1])]
    if len(lists) > 1 and len(codes):
        codes = _drop_duplicates(codes)
    return torch.from_numpy(codes)


def sort_codes(code: torch.Tensor) -> torch.Tensor:
    """Return the permutation that sorts codes ``[n, words]``, the first word most significant."""
    if code.device.type == "cpu" and code.shape[1] == 1:
        return torch.from_numpy(code[:, 0].numpy().argsort())  # NumPy's sort uses SIMD
    order = torch.arange(len(code), device=code.device)
    for word in reversed(range(code.shape[1])):
        order = order[code[order, word].argsort(stable=True)]
    return order


def _most_codes(capacity: int) -> int:
    """Codes that a table holds before it grows: probes stay short up to a load of 5/8."""
    return capacity * 5 // 8


def _drop_duplicates(codes: np.ndarray, chunk: int = 2**20) -> np.ndarray:
    """Move the distinct ones of sorted codes to the front, in chunks that need little memory."""
    new = np.ones(len(codes), dtype=bool)
    np.not_equal(codes[1:, 0], codes[:-1, 0], out=new[1:])
    for word in range(1, codes.shape[1]):
        new[1:] |= codes[1:, word] != codes[:-1, word]
    kept = 0
    for first in range(0, len(codes), chunk):
        part = codes[first : first + chunk][new[first : first + chunk]]
        codes[kept : kept + len(part)] = part
        kept += len(part)
    return codes[:kept] if kept > 0.9 * len(codes) else codes[:kept].copy()


def _hash_codes(code: torch.Tensor) -> torch.Tensor:
    code = code.contiguous()
    if code.device.type != "cpu":
        return claim(code)[0]
    slots = torch.full((hash_capacity(len(code)),), -1, dtype=torch.int32)
    tools = bridge.load_kernels(kernels.make, code.shape[1], device=code.device)
    count = torch.tensor([len(code)], dtype=torch.int32)
    bridge.launch(
        tools.insert,
        1,
        *(bridge.array(code.unsqueeze(0), 2), bridge.array(count, 1)),
        shift(len(slots)),
        bridge.array(slots.unsqueeze(0), 2),
        device=code.device,
    )
    return slots


def _find(wanted: torch.Tensor, code: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    out = torch.empty(len(wanted), dtype=torch.int32, device=code.device)
    wanted, code = wanted.contiguous(), code.contiguous()
    tools = bridge.load_kernels(kernels.make, code.shape[1], device=code.device)
    bridge.launch(
        tools.find,
        len(wanted),
        *(bridge.array(wanted, 1), bridge.array(code, 1)),
        shift(len(slots)),
        *(bridge.array(slots, 1), bridge.array(out, 1)),
        device=code.device,
    )
    return out


def _fake_slots(code: torch.Tensor) -> torch.Tensor:
    size = torch.library.get_ctx().new_dynamic_size(min=16)
    return torch.empty(size, dtype=torch.int32, device=code.device)


hash_codes = define("hash_codes(Tensor code) -> Tensor", _hash_codes, _fake_slots)

find = define(
    "find(Tensor wanted, Tensor code, Tensor slots) -> Tensor",
    _find,
    lambda wanted, code, slots: wanted.new_empty(wanted.shape[0], dtype=torch.int32),
)
