"""Bridge between torch and Warp: torch allocates, Warp borrows.

On the CPU a Warp launch is a serial loop that releases the GIL; launches are split over the thread
pool. On CUDA they go to torch's current stream on the tensor's device.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import filelock
import torch
import warp as wp

from permutogeo.kernels.rows import BLOCKS
from permutogeo.runtime import threads

# Array descriptor of a kernel: pointer, shape and strides.
Descriptor = type(wp.array(dtype=wp.float32).__ctype__())
DTYPES = {torch.float32: wp.float32, torch.float64: wp.float64}

_LIMIT = 2**31 - 1

_loading = threading.RLock()
_loaded: dict[tuple, SimpleNamespace] = {}
# Without, a fork while another thread generates code would deadlock the child.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_loading.acquire,
        after_in_parent=_loading.release,
        after_in_child=_loading.release,
    )


def init() -> None:
    """Initialize Warp once, without its note about a missing CUDA driver."""
    with _loading, _quiet():
        if os.environ.get("PERMUTOGEO_DEBUG"):
            wp.config.mode = "debug"
            # In debug mode all threads write the address of their tile stack to one place.
            wp.config.enable_tiles_in_stack_memory = False
        try:
            wp.init()
        except OSError as error:
            _use_temporary_cache(error)
            wp.init()


def load_kernels(factory: Callable[..., SimpleNamespace], *key: Any, device: torch.device) -> Any:
    """Return the kernels of one factory call, compiled or read from the cache on first use.

    Torch scalar types in ``key`` are replaced by Warp's.
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
        args: Arguments after ``start``; tensors as :func:`array` or :func:`rows`.
        grain: Smallest number of indices in a part of a split launch.
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

    threads.run_jobs([piece(*part) for part in threads.split_range(size, grain)])


def prepare(kernel: wp.Kernel, *args: Any, device: torch.device) -> Callable[..., None]:
    """Record a launch to be repeated by ``call(first, size, *changed)``.

    ``first`` is the argument after ``start``; ``changed`` replaces the arguments that follow it. On
    the CPU the launch runs on the calling thread, at a fraction of the overhead of :func:`launch`.
    """
    if device.type == "cuda":
        return lambda first, size, *changed: launch(
            kernel, size, first, *changed, *args[len(changed) :], device=device
        )
    command = wp.launch(kernel, 1, inputs=[0, 0, *args], device="cpu", record_cmd=True)

    def call(first: int, size: int, *changed: Any) -> None:
        for index, part in enumerate(changed):
            command.set_param_at_index_from_ctype(2 + index, part)
        command.set_param_at_index(1, first)
        command.set_dim(size)
        command.launch()

    return call


def array(tensor: torch.Tensor, ndim: int) -> ctypes.Structure:
    """Return the descriptor of a tensor with ``ndim`` indices; further axes are one element."""
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
    """Return the three descriptors of contiguous rows ``[n, C]`` (see ``kernels/rows.py``)."""
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


def versions() -> dict[str, Any]:
    """Return versions and devices of Warp, for bug reports."""
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
    """Compile and load kernels, once across threads and processes."""
    init()
    with _loading:
        made = factory(*(DTYPES.get(part, part) for part in key))
        target = "cpu" if device.type == "cpu" else wp.device_from_torch(device)
        with _quiet():
            try:
                _compile(made.module, target)
            except OSError as error:
                _use_temporary_cache(error)
                _compile(made.module, target)
        _loaded[factory, key, device] = made
    return made


def _compile(module: wp.Module, device: Any) -> None:
    with _one_process(module.name):
        wp.load_module(module, device=device)


def _use_temporary_cache(error: OSError) -> None:
    """Keep kernels in the temporary folder, after the kernel cache could not be written."""
    refused = wp.config.kernel_cache_dir
    try:
        user = getattr(os, "getuid", lambda: 0)()
        folder = Path(tempfile.gettempdir()) / f"permutogeo-kernels-{user}"
        folder.mkdir(mode=0o700, exist_ok=True)
        # A folder that others can write to could hold their code.
        if folder.stat().st_uid != user or (os.name == "posix" and folder.stat().st_mode & 0o022):
            folder = Path(tempfile.mkdtemp(prefix="permutogeo-kernels-"))
        if str(folder) in str(refused):
            raise error
    except OSError:
        raise OSError(
            f"Expected a writable folder for compiled kernels (got {refused}, {error.strerror}); "
            f"set WARP_CACHE_PATH to one"
        ) from error
    wp.config.kernel_cache_dir = str(folder)
    print(
        f"permutogeo: cannot write kernels to {refused} ({error.strerror}); using {folder}. "
        f"Set WARP_CACHE_PATH to a writable folder.",
        file=sys.stderr,
        flush=True,
    )


@contextlib.contextmanager
def _one_process(name: str) -> Iterator[None]:
    """Hold a lock file in the kernel cache, if it is writable."""
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
    """Suppress Warp's progress lines and its note about a missing CUDA driver.

    Native code writes the note to file descriptor 2; other output to it is passed on.
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
    try:
        caught = _memory_file()
    except OSError:  # no writable temporary folder: the note is shown
        os.close(saved)
        yield
        return
    with caught:
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


def _memory_file() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("permutogeo"), "w+b")
    return tempfile.TemporaryFile()
