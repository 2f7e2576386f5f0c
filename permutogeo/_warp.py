"""The one bridge between torch and Warp: torch allocates, Warp borrows.

On the CPU a Warp launch is a serial loop that releases the GIL, so a launch is cut into pieces
that a few threads take turns at; on CUDA it goes to torch's current stream of the tensor's device.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import filelock
import numpy as np
import torch
import warp as wp

from permutogeo import _threads
from permutogeo.kernels.rows import BLOCKS

# What a kernel receives for an array: pointer, shape and strides.
Descriptor = type(wp.array(dtype=wp.float32).__ctype__())
DTYPES = {torch.float32: wp.float32, torch.float64: wp.float64}

# Pieces per thread: enough to even out threads that are held up, few enough to cost nothing.
PIECES_PER_THREAD = 4

_HUGE_PAGE_BYTES = 1 << 22
# What is filled or copied faster by one thread than by waking another.
_FEWEST_NUMBERS = 1 << 17
_MADV_HUGEPAGE = 14
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_LIMIT = 2**31 - 1

_loading = threading.RLock()
_loaded: dict[tuple, SimpleNamespace] = {}
# A fork while another thread generates code would leave the child waiting for that thread.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_loading.acquire,
        after_in_parent=_loading.release,
        after_in_child=_loading.release,
    )


def init() -> None:
    """Start Warp once, silently where there is no GPU."""
    with _loading, _quiet():
        if os.environ.get("PERMUTOGEO_DEBUG"):
            wp.config.mode = "debug"
            # Unoptimised, every kernel writes the address of its stack to one place for tiles.
            wp.config.enable_tiles_in_stack_memory = False
        wp.init()


def kernels(factory: Callable[..., SimpleNamespace], *key: Any, device: torch.device) -> Any:
    """The kernels of one factory call, compiled or read from the cache on first use.

    Torch scalar types in ``key`` are handed over as Warp's.
    """
    found = _loaded.get((factory, key, device))
    return found if found is not None else _load(factory, key, device)


def launch(
    kernel: wp.Kernel,
    size: int,
    *args: Any,
    device: torch.device,
    inner: tuple[int, ...] = (),
    grain: int = 1024,
) -> None:
    """Run ``kernel`` for the indices ``0 .. size - 1`` (times ``inner``).

    Args:
        args: What follows ``start`` in the kernel's signature; tensors through :func:`array` or
            :func:`rows`.
        grain: Fewest indices worth a thread of their own.
    """
    if size == 0:
        return
    if device.type == "cuda":
        stream = wp.stream_from_torch(torch.cuda.current_stream(device))
        wp.launch(kernel, (size, *inner), inputs=[0, *args], stream=stream)
        return

    def piece(first: int, last: int) -> Callable[[], None]:
        dim = (last - first, *inner)
        return lambda: wp.launch(kernel, dim, inputs=[first, *args], device="cpu")

    _threads.run([piece(*part) for part in split(size, grain)])


def prepare(kernel: wp.Kernel, *args: Any, device: torch.device) -> Callable[[int, int], None]:
    """A launch to be repeated: ``call(first, size)`` sets the argument after ``start`` and the
    size.

    On the CPU it runs on the calling thread, at a fraction of the overhead of :func:`launch`.
    """
    if device.type == "cuda":
        return lambda first, size: launch(kernel, size, first, *args, device=device)
    command = wp.launch(kernel, 1, inputs=[0, 0, *args], device="cpu", record_cmd=True)

    def call(first: int, size: int) -> None:
        command.set_param_at_index(1, first)
        command.set_dim(size)
        command.launch()

    return call


def run(jobs: Sequence[Callable[[], None]]) -> None:
    """Run jobs that call torch as well, each on a thread where torch works alone, without
    gradients."""
    inference = torch.is_inference_mode_enabled()

    def in_mode(job: Callable[[], None]) -> None:
        # Modes are a thread's own.
        with torch.inference_mode() if inference else torch.no_grad():
            job()

    _threads.run([partial(in_mode, job) for job in jobs], caller=False)


def split(size: int, grain: int = 1) -> list[tuple[int, int]]:
    """Consecutive parts of ``range(size)``, a few for each thread, none much under ``grain``."""
    threads = _threads.count()
    parts = min(threads * PIECES_PER_THREAD, max(1, size // max(1, grain))) if threads > 1 else 1
    edge = [size * i // parts for i in range(parts + 1)]
    return list(itertools.pairwise(edge))


def array(tensor: torch.Tensor, ndim: int) -> ctypes.Structure:
    """Describe a tensor to a kernel: ``ndim`` indices, the other axes one contiguous element."""
    shape, stride = tensor.shape[:ndim], tensor.stride()[:ndim]
    size = tensor.element_size()
    strides = [s * size for s in stride]
    if max([*shape, *strides], default=0) > _LIMIT:
        raise ValueError(
            f"Expected a tensor of at most {_LIMIT} rows of at most {_LIMIT} bytes "
            f"(got shape {list(tensor.shape)}); work on parts of it"
        )
    return Descriptor(tensor.data_ptr(), 0, ndim, shape, strides)


def rows(tensor: torch.Tensor) -> list[ctypes.Structure]:
    """Describe contiguous rows ``[n, C]`` as ``kernels/rows.py`` reads them: by 16, by 4, by 1."""
    count, channels = tensor.shape
    size = tensor.element_size()
    if count > _LIMIT or channels * size > _LIMIT:
        array(tensor, 2)
    described, done = [], 0
    for block in BLOCKS:
        blocks = (channels - done) // block
        described.append(
            Descriptor(
                tensor.data_ptr() + done * size,
                0,
                2,
                (count, blocks),
                (channels * size, block * size),
            )
        )
        done += blocks * block
    return described


def empty(*shape: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """``torch.empty`` that asks for huge pages: faulting in small ones costs as much as the
    work."""
    tensor = torch.empty(shape, dtype=dtype, device=device)
    size = tensor.numel() * tensor.element_size()
    if _LIBC is not None and device.type == "cpu" and size >= _HUGE_PAGE_BYTES:
        page = 4096
        first = -(-tensor.data_ptr() // page) * page
        length = (tensor.data_ptr() + size - first) // page * page
        _LIBC.madvise(ctypes.c_void_p(first), ctypes.c_size_t(length), _MADV_HUGEPAGE)
    return tensor


def apply(function: Callable[..., torch.Tensor], a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``function(a, b)`` element by element; without a gradient into memory as of :func:`empty`."""
    tracked = torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)
    if tracked or a.device.type != "cpu" or torch.compiler.is_compiling():
        return function(a, b)
    shape = torch.broadcast_shapes(a.shape, b.shape)
    out = empty(*shape, dtype=torch.result_type(a, b), device=a.device)
    return function(a, b, out=out)


def full(*shape: int, value: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """``torch.full`` that on the CPU works on our threads.

    Torch's own would go on spinning beside them for a while after each parallel operation.
    """
    tensor = empty(*shape, dtype=dtype, device=device)
    if device.type != "cpu":
        return tensor.fill_(value)
    flat = tensor.numpy().reshape(-1)
    _threads.run([partial(flat[a:b].fill, value) for a, b in split(len(flat), _FEWEST_NUMBERS)])
    return tensor


def copy(target: torch.Tensor, source: torch.Tensor) -> None:
    """``target[:] = source``, on our threads on the CPU."""
    if target.device.type != "cpu" or source.device.type != "cpu":
        target.copy_(source)
        return
    into, out_of = target.detach().numpy(), source.detach().numpy()
    grain = max(1, _FEWEST_NUMBERS * len(into) // max(1, into.size))
    _threads.run([partial(np.copyto, into[a:b], out_of[a:b]) for a, b in split(len(into), grain)])


def versions() -> dict[str, Any]:
    """What a bug report needs to know of Warp."""
    init()
    return {
        "warp": wp.config.version,
        "cuda_toolkit": ".".join(map(str, wp.get_cuda_toolkit_version() or ["none"])),
        "kernel_cache_dir": wp.config.kernel_cache_dir,
        "devices": [str(device) for device in wp.get_devices()],
    }


def _load(
    factory: Callable[..., SimpleNamespace], key: tuple, device: torch.device
) -> SimpleNamespace:
    """Make, compile and load the kernels, once even when threads or processes arrive together."""
    init()
    with _loading:
        made = factory(*(DTYPES.get(part, part) for part in key))
        target = "cpu" if device.type == "cpu" else wp.device_from_torch(device)
        with _quiet(), _one_process(made.module.name):
            wp.load_module(made.module, device=target)
        _loaded[factory, key, device] = made
    return made


@contextlib.contextmanager
def _one_process(name: str) -> Iterator[None]:
    """Hold a lock file in the kernel cache, or go on without where it cannot be written."""
    lock = filelock.FileLock(Path(wp.config.kernel_cache_dir) / f".{name}.lock")
    try:
        lock.acquire()
    except OSError:
        yield
        return
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Warp's progress lines from the terminal, and its note that there is no CUDA driver.

    The note is written by native code to the standard error's file itself; whatever else arrives
    there meanwhile is passed on.
    """
    level, wp.config.log_level = wp.config.log_level, wp.LOG_WARNING
    try:
        with _without_driver_note() if not torch.cuda.is_available() else contextlib.nullcontext():
            yield
    finally:
        wp.config.log_level = level


@contextlib.contextmanager
def _without_driver_note() -> Iterator[None]:
    try:
        saved = os.dup(2)
    except OSError:  # no standard error at all
        yield
        return
    with tempfile.TemporaryFile() as caught:
        os.dup2(caught.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            caught.seek(0)
            other = [line for line in caught if b"NVIDIA CUDA driver" not in line]
            if other:
                os.write(2, b"".join(other))
