"""A CUDA device that is simulated on the CPU, so that the CUDA branches of all operators run.

Tensors live in main memory and claim to be on ``cuda:1``. Everything that the library does with
such a device is executed and recorded:

- launches run on 2 to 8 threads, in shuffled pieces, with kernels compiled against a copy of
  Warp's headers in which atomics are the compiler's ``__atomic`` built-ins (Warp's own CPU atomics
  are plain loads and stores) and compare-and-swap waits for a random time;
- each launch records its stream and device, and raises if an argument is a host tensor or is no
  longer alive;
- an operation between host and device tensors raises, as torch does with a real device;
- reads of device memory by the host are counted as synchronizations.

The module must be imported before ``permutogeo.ops``, in a process of its own.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import math
import os
import pkgutil
import random
import re
import shutil
import threading
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import torch
import warp as wp
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from warp._src import build as warp_build

from permutogeo.runtime import bridge, threads

DEVICE = torch.device("cuda", 1)
_PROPERTIES = SimpleNamespace(total_memory=8 * 2**30)

_COMPARE_AND_SWAP = re.compile(
    r"    (T|float|double|int64) old = \*address;\n    if \(old == compare\) \{\n"
    r"        \*address = val;\n    \}\n    return old;\n"
)
_ADD = re.compile(r"    (T|int64) old = buf\[0\];\n    buf\[0\] \+= value;\n    return old;\n")
_WAIT = (
    "    for (volatile unsigned n = (unsigned)(__builtin_readcyclecounter() >> 4) % {limit}; n;"
    " n = n - 1) {{ }}\n"
)
_REAL = (
    "    __atomic_compare_exchange(address, &compare, &val, false, 5, 5);\n    return compare;\n"
)
# The window between load and store is some 50 microseconds where the swap succeeds, longer than
# threads take to start: two of them meet in it even on a machine with few cores.
_BROKEN = (
    r"    \1 old = *address;\n"
    "    if (old == compare) {\n" + _WAIT.format(limit=65536) + "        *address = val;\n    }\n"
    "    return old;\n"
)
_REAL_ADD = (
    r"    \1 old = buf[0], sum;\n"
    "    do { sum = old + value; }\n"
    "    while (!__atomic_compare_exchange(buf, &old, &sum, false, 5, 5));\n    return old;\n"
)


def use_atomic_headers(folder: Path, broken: bool = False) -> None:
    """Compile kernels against headers with real atomics; ``broken`` ones show that races are found.

    A wait stands inside the broken compare-and-swap, between its load and its store, and before
    the real one. Headers and kernels are kept in ``folder``.
    """
    os.environ["WARP_CACHE_PATH"] = str(folder / "cache")
    native = folder / "native"
    shutil.copytree(
        Path(warp_build.warp_home) / "native",
        native,
        ignore=shutil.ignore_patterns("*.cu", "*.cpp", "libdevice"),
    )
    header = native / "builtin.h"
    text, swaps = _COMPARE_AND_SWAP.subn(
        _BROKEN if broken else _WAIT.format(limit=256) + _REAL, header.read_text()
    )
    text, adds = _ADD.subn(_REAL_ADD, text)
    assert swaps == 4 and adds == 2, "Warp's headers changed: look for its CPU atomics"
    header.write_text(text)
    warp_build.warp_home = str(folder)


class Schedule:
    """Runs a launch on several threads, in shuffled pieces."""

    def __init__(self, seed: int = 0):
        self.random = random.Random(seed)
        self.launches = 0

    def run(self, launch, kernel, size: int, inner: tuple[int, ...], args: list) -> None:
        self.launches += 1
        pieces = self._pieces(size)
        workers = self.random.randint(2, 8)
        pause = self.random.random() < 0.3
        failures: list[BaseException] = []
        together = threading.Barrier(workers)

        def work() -> None:
            try:
                together.wait()
                while pieces:
                    try:
                        first, last = pieces.pop()
                    except IndexError:
                        return
                    launch(kernel, (last - first, *inner), inputs=[first, *args], device="cpu")
                    if pause:
                        time.sleep(0)
            except BaseException as error:
                failures.append(error)

        running = [threading.Thread(target=work) for _ in range(workers)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        if failures:
            raise failures[0]

    def _pieces(self, size: int) -> list[tuple[int, int]]:
        cuts = {self.random.randrange(size + 1) for _ in range(self.random.choice((1, 4, 12, 24)))}
        edges = sorted(cuts | {0, size})
        pieces = [(a, b) for a, b in itertools.pairwise(edges) if a < b]
        self.random.shuffle(pieces)
        return pieces


# Reads of device memory by the host; each stops the stream.
_READS = {
    "item", "tolist", "__bool__", "__int__", "__float__", "__index__", "nonzero", "equal",
    "unique", "unique_consecutive", "_unique2", "masked_select",
}  # fmt: skip
# Operations that take host and device tensors together.
_MIXED = {"__getitem__", "__setitem__", "copy_", "to", "index", "cpu", "__get__", "__set__"}


class FakeCuda(TorchFunctionMode):
    """Tensors made on ``cuda:1``, or from such tensors, claim to be there; others are on the host.

    Attributes:
        reads: How often the host read device memory, by function.
        streams: The stream of each launch.
        threads: Most threads of a launch, by kernel.
        current: The current stream.
    """

    def __init__(self, schedule: Schedule | None = None):
        super().__init__()
        self.schedule = schedule or Schedule()
        self.reads: Counter[str] = Counter()
        self.streams: list = []
        self.threads: Counter[str] = Counter()
        self.current = SimpleNamespace(device=DEVICE, cuda_stream=0)
        self.described: dict[int, StorageWeakRef] = {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func == torch.Tensor.device.__get__:
            return torch.device("cpu") if _is_host(args[0]) else DEVICE
        if func == torch.Tensor.is_cuda.__get__:
            return not _is_host(args[0])
        name = getattr(func, "__name__", str(func))
        if isinstance(func, torch._ops.OpOverload) and func.namespace == "permutogeo":
            with self:
                return IMPLEMENTATIONS[func._schema.name.split("::")[1]](*args, **kwargs)
        if name in ("to", "cpu", "cuda"):
            return self._move(name, args, kwargs)
        tensors = [t for t in _flat((args, kwargs)) if isinstance(t, torch.Tensor)]
        host = [t for t in tensors if _is_host(t)]
        if len(host) < len(tensors) and (name in _READS or _selects_by_mask(name, args)):
            self.reads[name] += 1
        if name == "numpy" and not host:
            raise TypeError("can't convert cuda:1 device type tensor to numpy")
        mixed = [t for t in host if t.dim() > 0] if len(host) < len(tensors) else []
        if mixed and name not in _MIXED:
            raise RuntimeError(f"{name}: expected all tensors on one device (got cpu and cuda:1)")
        made_here = kwargs.get("device") is not None and torch.device(kwargs["device"]) == DEVICE
        if "device" in kwargs:
            kwargs["device"] = "cpu"
        result = func(*args, **kwargs)
        on_host = len(host) == len(tensors) and not made_here
        for out in _flat(result):
            if isinstance(out, torch.Tensor):
                out.on_host = on_host
        return result

    def _move(self, name, args, kwargs):
        tensor, *rest = args
        wanted = torch.device("cpu") if name == "cpu" else kwargs.pop("device", None)
        kept = []
        for part in rest:
            if isinstance(part, (str, torch.device)):
                wanted = torch.device(part)
            elif isinstance(part, torch.Tensor):
                wanted = torch.device("cpu") if _is_host(part) else DEVICE
                kept.append(part.dtype)
            else:
                kept.append(part)
        was_host = _is_host(tensor)
        host = was_host if wanted is None else wanted.type == "cpu"
        copied = tensor.to(*kept, **kwargs) if kept or kwargs else tensor
        if host != was_host:
            copied = copied.clone() if copied is tensor else copied
            self.reads["cpu"] += host
        copied.on_host = host
        return copied

    @contextlib.contextmanager
    def active(self):
        """Run the library on the simulated device."""
        real_launch, real_array, real_rows = wp.launch, bridge.array, bridge.rows

        def launch(kernel, dim, inputs=(), stream=None, device=None, **others):
            assert stream is not None, f"{kernel.key} was launched without a stream"
            assert not others, others
            assert stream.device == DEVICE
            self.streams.append(stream)
            for part in inputs:
                if isinstance(part, bridge.Descriptor) and part.data:
                    memory = self.described.get(part.data)
                    assert memory is None or not memory.expired(), "an argument was freed"
            size, *inner = (dim,) if isinstance(dim, int) else dim
            assert inputs[0] == 0, "a CUDA launch covers its whole range"
            name = kernel.key.rpartition("__locals__")[2]
            self.threads[name] = max(self.threads[name], size * math.prod(inner))
            self.schedule.run(real_launch, kernel, size, tuple(inner), list(inputs[1:]))

        def describe(real):
            def described(tensor, *rest):
                assert not _is_host(tensor), "a kernel was given a host tensor"
                if tensor.numel():
                    self.described[tensor.data_ptr()] = StorageWeakRef(tensor.untyped_storage())
                return real(tensor, *rest)

            return described

        def no_threads(*args, **kwargs):
            raise AssertionError("CUDA work was given to the thread pool")

        with contextlib.ExitStack() as stack:
            for target, name, new in (
                (wp, "launch", launch),
                (wp, "stream_from_torch", lambda stream: stream),
                (wp, "device_from_torch", lambda device: "cpu"),
                (torch.cuda, "current_stream", lambda device=None: self._stream(device)),
                (torch.cuda, "get_device_properties", lambda device: _PROPERTIES),
                (bridge, "array", describe(real_array)),
                (bridge, "rows", describe(real_rows)),
                (threads, "run_jobs", no_threads),
            ):
                stack.enter_context(mock.patch.object(target, name, new))
            stack.enter_context(self)
            yield self

    def _stream(self, device):
        assert device == DEVICE, f"asked for the stream of {device}"
        return self.current


def on_device(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor for the simulated device."""
    tensor = tensor.clone()
    tensor.on_host = False
    return tensor


def contents(tensor: torch.Tensor):
    """The numbers of a tensor, read by the test and not by the library."""
    with torch._C.DisableTorchFunction():
        return tensor.detach().numpy()


def _selects_by_mask(name: str, args: tuple) -> bool:
    """Whether the size of the result depends on the values of a mask."""
    if name != "__getitem__":
        return False
    masks = [part for part in _flat(args[1]) if isinstance(part, torch.Tensor)]
    return any(part.dtype == torch.bool and not _is_host(part) for part in masks)


def _is_host(tensor: torch.Tensor) -> bool:
    return getattr(tensor, "on_host", True)


def _flat(value):
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _flat(part)
    elif isinstance(value, dict):
        yield from _flat(list(value.values()))
    else:
        yield value


def _record_implementations() -> dict:
    """The Python bodies of all operators, by name, as they are registered on import."""
    found = {}
    real = torch.library.Library.impl

    def impl(self, name, function, *rest, **options):
        if self.ns == "permutogeo":
            found.setdefault(str(name), function)
        return real(self, name, function, *rest, **options)

    with mock.patch.object(torch.library.Library, "impl", impl):
        package = importlib.import_module("permutogeo.ops")
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"permutogeo.ops.{module.name}")
    return found


IMPLEMENTATIONS = _record_implementations()
