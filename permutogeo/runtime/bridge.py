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

from permutogeo.kernels.rows import WIDE_BYTES
from permutogeo.runtime import threads
from permutogeo.runtime.descriptors import Descriptor, describe_arguments

DTYPES = {torch.float32: wp.float32, torch.float64: wp.float64}

# Compiled CPU functions are called without Warp's launcher, which checks a module's hash under a
# lock at each launch, only by versions of Warp whose calling convention is known.
_DIRECT = wp.config.version.startswith("1.19.")
_entries: dict[wp.Kernel, Callable[..., None]] = {}

_streams: dict[tuple[torch.device, int], wp.Stream] = {}

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
    try:
        return _loaded[factory, key, device]
    except KeyError:
        return _load(factory, key, device)


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
        args: Arguments after ``start``, tensors among them: see :func:`describe_arguments`.
        grain: Smallest number of indices in a part of a split launch.
    """
    if size == 0 or 0 in inner:
        return
    described = describe_arguments(kernel, args)
    if device.type == "cuda":
        stream = _warp_stream(torch.cuda.current_stream(device))
        wp.launch(kernel, (size, *inner), inputs=[0, *described], stream=stream)
        return

    call = _entries[kernel] if kernel in _entries else _entry(kernel)
    if size < 2 * grain:
        call((size, *inner), 0, *described)
        return
    parts = threads.split_range(size, grain)
    if len(parts) == 1:
        call((size, *inner), 0, *described)
        return

    def piece(first: int, last: int) -> Callable[[], None]:
        return lambda: call((last - first, *inner), first, *described)

    threads.run_jobs([piece(*part) for part in parts])


def prepare(
    kernel: wp.Kernel, *args: Any, device: torch.device, inner: tuple[int, ...] = ()
) -> Callable[..., None]:
    """Record a launch to be repeated by ``call(first, size, *changed)``.

    ``first`` is the argument after ``start``; ``changed`` replaces the arguments that follow it. On
    the CPU the launch runs on the calling thread, at a fraction of the overhead of :func:`launch`.
    """
    if device.type == "cuda":
        return lambda first, size, *changed: launch(
            kernel, size, first, *changed, *args[len(changed) :], device=device, inner=inner
        )
    entry = _entries.get(kernel) or _entry(kernel)
    described = describe_arguments(kernel, (0, *args))[1:]

    def call(first: int, size: int, *changed: Any) -> None:
        if changed:
            rest = describe_arguments(kernel, (first, *changed, *args[len(changed) :]))[1:]
            entry((size,), 0, first, *rest)
        else:
            entry((size,), 0, first, *described)

    return call


class Rows:
    """Layout of tensor rows as kernel arguments on their device (see ``kernels/rows.py``).

    Args:
        tensors: Contiguous rows ``[n, C]`` of one type and width, all that a launch takes.

    Attributes:
        lanes: Channels of a block on a GPU; 0 on the CPU.
        blocks: Blocks of a row on a GPU, where a thread owns one; empty on the CPU.
    """

    __slots__ = ("blocks", "lanes")

    def __init__(self, *tensors: torch.Tensor):
        first = tensors[0]
        self.lanes = 0
        self.blocks: tuple[int, ...] = ()
        if first.device.type == "cuda":
            wide = WIDE_BYTES // first.itemsize
            # A view may begin anywhere.
            aligned = all(each.data_ptr() % WIDE_BYTES == 0 for each in tensors)
            self.lanes = wide if aligned and first.shape[1] % wide == 0 else 1
            self.blocks = (first.shape[1] // self.lanes,)

    def load(
        self,
        cpu: Callable[..., SimpleNamespace],
        gpu: Callable[..., SimpleNamespace],
        *key: Any,
        device: torch.device,
    ) -> Any:
        """Return the kernels of the device: those of ``gpu`` take the lanes as their last key."""
        if self.lanes:
            return load_kernels(gpu, *key, self.lanes, device=device)
        return load_kernels(cpu, *key, device=device)


def versions() -> dict[str, Any]:
    """Return versions and devices of Warp, for bug reports."""
    init()
    return {
        "warp": wp.config.version,
        "cuda_toolkit": ".".join(map(str, wp.get_cuda_toolkit_version() or ["none"])),
        "kernel_cache_dir": wp.config.kernel_cache_dir,
        "devices": [str(device) for device in wp.get_devices()],
    }


def _warp_stream(stream: Any) -> wp.Stream:
    """Return Warp's view of a stream of torch, one for the whole process.

    Warp forgets a stream when its view is freed, also where other code has a view of its own.
    """
    key = stream.device, stream.cuda_stream
    if key not in _streams:
        _streams[key] = wp.stream_from_torch(stream)
    return _streams[key]


def _entry(kernel: wp.Kernel) -> Callable[..., None]:
    """Return ``call(dim, *args)``, which runs a kernel on the CPU, on the calling thread."""

    def by_launch(dim: tuple[int, ...], *args: Any) -> None:
        wp.launch(kernel, dim, inputs=args, device="cpu")

    def directly(dim: tuple[int, ...], *args: Any) -> None:
        size = 1
        for extent in dim:
            size *= extent
        forward(bounds(dim, size, 1), arguments(*args))

    if not _DIRECT:
        return by_launch
    # The launch is recorded, not run: no argument is read.
    blank = [_blank(argument.type) for argument in kernel.adj.args]
    dim = (1,) * kernel.adj.kernel_dim
    command = wp.launch(kernel, dim, inputs=blank, device="cpu", record_cmd=True)
    # Warp's own class fills its fields in Python.
    bounds = _structure("Bounds", type(command.bounds)._fields_)
    fields = [(f"f{i}", type(param)) for i, param in enumerate(command.params[1:])]
    arguments = _structure("Arguments", fields)
    address = ctypes.cast(command.hooks.forward, ctypes.c_void_p).value
    pointers = ctypes.POINTER(bounds), ctypes.POINTER(arguments)
    forward = ctypes.CFUNCTYPE(None, *pointers)(address or 0)
    _entries[kernel] = directly
    # Keeps the compiled module loaded.
    directly.command = command  # type: ignore[attr-defined]
    return directly


def _structure(name: str, fields: Any) -> Any:
    return type(name, (ctypes.Structure,), {"_fields_": fields})


def _blank(kind: Any) -> Any:
    """Return an argument of a type: a descriptor of nothing, or zero."""
    return Descriptor() if isinstance(kind, wp.array) else kind(0)


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
