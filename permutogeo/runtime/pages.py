"""Memory pages of released tensors, kept for the next ones.

Fresh pages can cost more than the computation that fills them: the system zeroes them, and a
virtual machine may have to get them from its host. Large tensors on the CPU therefore get blocks of
their own from the system, and a released block is kept. Its pages are marked as free meanwhile: the
system takes them when it is short of memory.

Blocks in use and kept together never exceed the most that was in use at one time, and kept ones
never exceed an eighth of the machine's memory.
"""

from __future__ import annotations

import mmap
import os
import sys
import threading
import weakref
from functools import cache

import numpy as np
import torch

# Kept blocks are used for tensors of at least half their size.
_LEAST_USED = 0.5
_GRANULE = 1 << 21
_DTYPES: dict[torch.dtype, np.dtype] = {
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
    torch.int32: np.dtype(np.int32),
    torch.int64: np.dtype(np.int64),
}
AVAILABLE = sys.platform == "linux" and hasattr(mmap, "MADV_FREE")

_lock = threading.Lock()
# Released blocks, the latest last, and the sizes of those in use. Finalizers run at any time, also
# within the functions here, so that they use only operations that are atomic in Python.
_kept: list[mmap.mmap] = []
_used: dict[int, int] = {}
_most_used = 0


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor | None:
    """Return a tensor with a block of its own, ``None`` where the type or system has none."""
    kind = _DTYPES.get(dtype)
    if kind is None or not AVAILABLE:
        return None
    count = int(np.prod(shape, dtype=np.int64))
    size = -(-count * kind.itemsize // _GRANULE) * _GRANULE
    try:
        block = _take(size)
    except (OSError, ValueError):  # out of memory: torch says so
        return None
    memory = np.frombuffer(block, dtype=np.uint8)
    # Torch keeps the array, and the array its block, until the last view of the tensor is gone.
    weakref.finalize(memory, _give_back, block).atexit = False
    return torch.from_numpy(memory[: count * kind.itemsize].view(kind).reshape(shape))


def release() -> None:
    """Return all kept blocks to the system."""
    with _lock:
        _kept.clear()


def kept_bytes() -> int:
    """Return the size of all kept blocks."""
    return sum(len(block) for block in list(_kept))


def _take(size: int) -> mmap.mmap:
    global _most_used
    with _lock:
        fitting = [b for b in list(_kept) if len(b) * _LEAST_USED <= size <= len(b)]
        block = min(fitting, key=len, default=None)
        if block is not None:
            _kept.remove(block)
        used = sum(list(_used.values())) + (size if block is None else len(block))
        _most_used = max(_most_used, used)
        while _kept and used + kept_bytes() > _most_used:
            _kept.pop(0)
        if block is None:
            block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            block.madvise(mmap.MADV_HUGEPAGE)
        _used[id(block)] = len(block)
        return block


def _give_back(block: mmap.mmap) -> None:
    _used.pop(id(block), None)
    block.madvise(mmap.MADV_FREE)
    _kept.append(block)
    while kept_bytes() > _most_kept():
        try:
            _kept.pop(0)
        except IndexError:
            return


@cache
def _most_kept() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 8


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
