"""Hash tables of lattice codes for look-ups, and sorting of codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from permutogeo.kernels import table as kernels
from permutogeo.ops._library import define
from permutogeo.runtime import bridge

# Most codes in one hash table: slots are indexed by 32 bits, and half of them stay free.
MOST_CODES = 2**29


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
        code,
        shift(len(slots)),
        slots,
        owner,
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


def sort_unique(lists: Sequence[torch.Tensor]) -> torch.Tensor:
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


def unique_codes(lists: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the distinct codes of several lists ``[n, words]``, ascending, on any device."""
    if lists[0].device.type == "cpu":
        return sort_unique(lists)
    joined = torch.cat(tuple(lists))
    return joined.unique(dim=0) if joined.shape[1] > 1 else joined[:, 0].unique()[:, None]


def look_up(wanted: torch.Tensor, code: torch.Tensor) -> torch.Tensor:
    """Return the position of each code ``[n, words]`` in a list of distinct codes, ``[n]`` int32;
    ``-1`` where absent."""
    return _find(wanted, code, _hash_codes(code))


def sort_codes(code: torch.Tensor) -> torch.Tensor:
    """Return the permutation that sorts codes ``[n, words]``, the first word most significant."""
    if code.device.type == "cpu" and code.shape[1] == 1:
        return torch.from_numpy(code[:, 0].numpy().argsort())  # NumPy's sort uses SIMD
    order = torch.arange(len(code), device=code.device)
    for word in reversed(range(code.shape[1])):
        order = order[code[order, word].argsort(stable=True)]
    return order


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
    slots = torch.full((hash_capacity(code.shape[0]),), -1, dtype=torch.int32)
    tools = bridge.load_kernels(kernels.make, code.shape[1], device=code.device)
    arguments = (code, shift(slots.shape[0]), slots)
    bridge.launch(tools.insert, 1, *arguments, device=code.device)
    return slots


def _find(wanted: torch.Tensor, code: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    out = torch.empty(wanted.shape[0], dtype=torch.int32, device=code.device)
    wanted, code = wanted.contiguous(), code.contiguous()
    tools = bridge.load_kernels(kernels.make, code.shape[1], device=code.device)
    bridge.launch(
        tools.find,
        wanted.shape[0],
        wanted,
        code,
        shift(slots.shape[0]),
        slots,
        out,
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
