"""Allocation, fills and copies on the CPU, and the workspace limit of convolutions.

On the CPU, large tensors use huge pages, the largest of them recycled ones. Fills and copies run on
the threads of :mod:`permutogeo.runtime.threads`: torch's own OpenMP threads keep spinning for
milliseconds after a parallel operation and slow down the kernels that follow.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache, partial

import numpy as np
import torch
from torch import Tensor

from permutogeo.runtime import pages, threads

# Tensors of at least this size ask for huge pages.
_HUGE_PAGE_BYTES = 1 << 22
_MADV_HUGEPAGE = 14
_PAGE_BYTES = 4096
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
# Tensors of at least this size get recycled pages, which stay resident: smaller ones are not worth
# the memory.
_RECYCLED_BYTES = 1 << 25
# Larger tensors do not stay in a core's cache.
_CACHE_BYTES = 1 << 20
# Fewer elements than this are filled or copied faster by one thread.
_FEWEST_ELEMENTS = 1 << 17
# Up to this size torch works on one thread.
_TORCH_GRAIN = 1 << 15

_workspace_bytes = 64 * 2**20


def empty(*shape: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """``torch.empty``, for large tensors in huge pages, for very large ones in recycled pages.

    Page faults cost as much as the computation that fills the pages.
    """
    size = dtype.itemsize
    for extent in shape:
        size *= extent
    if size < _HUGE_PAGE_BYTES or device.type != "cpu":
        return torch.empty(shape, dtype=dtype, device=device)
    tensor = pages.empty(shape, dtype) if size >= _RECYCLED_BYTES else None
    if tensor is None:
        tensor = torch.empty(shape, dtype=dtype, device=device)
        _ask_for_huge_pages(tensor)
    return tensor


def _ask_for_huge_pages(tensor: Tensor) -> None:
    if _LIBC is not None:
        first = -(-tensor.data_ptr() // _PAGE_BYTES) * _PAGE_BYTES
        length = (tensor.data_ptr() + tensor.nbytes - first) // _PAGE_BYTES * _PAGE_BYTES
        _LIBC.madvise(ctypes.c_void_p(first), ctypes.c_size_t(length), _MADV_HUGEPAGE)


def exceeds_cache(tensor: Tensor) -> bool:
    """Return whether kernels on the CPU had better prefetch rows that they read in any order."""
    return tensor.nbytes > _CACHE_BYTES and tensor.device.type == "cpu"


def full(*shape: int, value: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """``torch.full`` on the threads of the pool."""
    size = 1
    for extent in shape:
        size *= extent
    if device.type != "cpu" or size <= _TORCH_GRAIN:
        return torch.full(shape, value, dtype=dtype, device=device)
    tensor = empty(*shape, dtype=dtype, device=device)
    fill(tensor, value)
    return tensor


def fill(tensor: Tensor, value: int) -> None:
    """``tensor.fill_(value)`` of a contiguous tensor on the threads of the pool."""
    if tensor.device.type != "cpu" or tensor.numel() <= _TORCH_GRAIN:
        tensor.fill_(value)
        return
    flat = tensor.numpy().reshape(-1)
    parts = threads.split_range(len(flat), _FEWEST_ELEMENTS)
    threads.run_jobs([partial(flat[first:last].fill, value) for first, last in parts])


def copy(target: Tensor, source: Tensor) -> None:
    """``target.copy_(source)`` on the threads of the pool."""
    on_host = target.device.type == "cpu" and source.device.type == "cpu"
    if not on_host or target.numel() <= _TORCH_GRAIN:
        target.copy_(source.detach())
        return
    into, out_of = target.detach().numpy(), source.detach().numpy()
    grain = max(1, _FEWEST_ELEMENTS * len(into) // max(1, into.size))
    parts = threads.split_range(len(into), grain)
    threads.run_jobs(
        [partial(np.copyto, into[first:last], out_of[first:last]) for first, last in parts]
    )


def trim() -> None:
    """Return memory that is not in use to the system: recycled pages and, with glibc, the heap's.

    Tensors of different lifetimes leave gaps in the heap that large tensors do not fit in.
    """
    pages.release()
    if _LIBC is not None and hasattr(_LIBC, "malloc_trim"):
        _LIBC.malloc_trim(ctypes.c_size_t(0))


def upload(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a small tensor of the CPU on a device, without waiting for work on its stream.

    CUDA stages pageable memory before such a copy returns.
    """
    return tensor if tensor.device == device else tensor.to(device, non_blocking=True)


def apply(function: Callable[..., Tensor], a: Tensor, b: Tensor) -> Tensor:
    """``function(a, b)`` elementwise; without autograd, into memory from :func:`empty`."""
    tracked = torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)
    if tracked or a.device.type != "cpu" or torch.compiler.is_compiling():
        return function(a, b)
    shape = torch.broadcast_shapes(a.shape, b.shape)
    out = empty(*shape, dtype=torch.result_type(a, b), device=a.device)
    return function(a, b, out=out)


@cache
def total_memory(device: torch.device) -> int:
    """Total memory of a device in bytes."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def get_workspace() -> int:
    """Returns the workspace limit of convolutions in bytes."""
    return _workspace_bytes


def set_workspace(size: int) -> None:
    """Limits the workspace of convolutions.

    Convolutions gather the neighbors of a chunk of vertices at a time. A smaller limit means more
    and smaller chunks; a chunk holds at least one vertex.

    Args:
        size: Limit in bytes.
    """
    global _workspace_bytes
    if not isinstance(size, int) or size < 1:
        raise ValueError(f"Expected a positive number of bytes (got {size!r})")
    _workspace_bytes = size
