"""A CUDA device that is simulated on the CPU, so that the CUDA branches of all operators run.

Tensors live in main memory and claim to be on ``cuda:1``. Everything that the library does with
such a device is executed and recorded:

- launches run on 2 to 8 threads, in shuffled pieces, with kernels compiled against a copy of
  Warp's headers in which atomics are the compiler's ``__atomic`` built-ins (Warp's own CPU atomics
  are plain loads and stores) and compare-and-swap waits for a random time;
- each launch records its stream and device, and raises if an argument is a host tensor or is no
  longer alive;
- an operation between host and device tensors raises, as torch does with a real device;
- whatever makes the host wait for the device is counted, in torch's own operators too: reads of
  device memory, results whose size depends on data, and copies in either direction, but for copies
  to the device that do not block.

Gradients: :meth:`FakeCuda.backward`. CUDA graphs: ``fake_graph.py``. The headers:
``atomic_headers.py``.

The module must be imported before ``permutogeo.ops``, in a process of its own.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import math
import pkgutil
import random
import threading
import time
from collections import Counter
from inspect import getclosurevars
from types import SimpleNamespace
from unittest import mock

import torch
import warp as wp
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from permutogeo.runtime import bridge, threads

DEVICE = torch.device("cuda", 1)
_PROPERTIES = SimpleNamespace(total_memory=8 * 2**30)


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


# Reads of device memory that no operator of torch shows; `numpy` raises.
_READS = {"tolist", "__array__"}
# Operators of torch after which the host waits for the device.
_WAITS = {
    "_local_scalar_dense", "nonzero", "masked_select", "equal", "bincount", "_unique", "_unique2",
    "unique_dim", "unique_consecutive", "unique_dim_consecutive",
}  # fmt: skip
# They count the elements of a mask.
_TAKE_MASKS = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}
# Operations that take host and device tensors together.
_MIXED = {"__getitem__", "__setitem__", "copy_", "to", "index", "cpu", "__get__", "__set__"}


class FakeCuda(TorchFunctionMode):
    """Tensors made on ``cuda:1``, or from such tensors, claim to be there; others are on the host.

    Attributes:
        reads: How often the host waited for the device, by function.
        uploads: Copies from the host that did not block.
        graph: The capture that is under way.
        streams: The stream of each launch.
        threads: Most threads of a launch, by kernel.
        current: The current stream.
    """

    def __init__(self, schedule: Schedule | None = None):
        super().__init__()
        self.schedule = schedule or Schedule()
        self.reads: Counter[str] = Counter()
        self.uploads = 0
        self.graph = None
        self.unmarked_on_host = True
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
                return _implementation(func._schema.name.split("::")[1], args)(*args, **kwargs)
        if name in ("to", "cpu", "cuda"):
            return self._move(name, args, kwargs)
        tensors = [t for t in _flat((args, kwargs)) if isinstance(t, torch.Tensor)]
        host = [t for t in tensors if _is_host(t)]
        if len(host) < len(tensors) and name in _READS:
            self.wait(name)
        if name == "numpy" and not host:
            raise TypeError("can't convert cuda:1 device type tensor to numpy")
        mixed = [t for t in host if t.dim() > 0] if len(host) < len(tensors) else []
        if mixed and name not in _MIXED:
            raise RuntimeError(f"{name}: expected all tensors on one device (got cpu and cuda:1)")
        made_here = kwargs.get("device") is not None and torch.device(kwargs["device"]) == DEVICE
        if (made_here and name in ("tensor", "as_tensor")) or (tensors and name == "new_tensor"):
            self.wait(f"{name}, a copy from the host")
        if name == "copy_" and _is_host(args[0]) != _is_host(args[1]):
            self.wait("copy_ between host and device")
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
        blocks = not kwargs.pop("non_blocking", False)
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
            if host or blocks:
                self.wait("cpu" if host else "a blocking copy from the host")
            else:
                self.upload()
        copied.on_host = host
        return copied

    def wait(self, name: str) -> None:
        """Count that the host waits for the device."""
        self.reads[name] += 1
        if self.graph is not None:
            self.graph.refuse(f"the host waits for the device: {name}")

    def upload(self) -> None:
        """Count a copy of pageable memory, which does not block."""
        self.uploads += 1
        if self.graph is not None:
            self.graph.refuse("host memory is copied")

    def backward(self, out: torch.Tensor, grad: torch.Tensor) -> None:
        """Accumulate the gradients of ``out`` in the leaves, while the device is active.

        ``torch.autograd`` would run its nodes without the mode.
        """
        self.unmarked_on_host = False  # tensors that autograd's own nodes make
        try:
            engine = torch.autograd.Variable._execution_engine
            engine.run_backward((out,), (grad,), False, False, (), True, accumulate_grad=True)
        finally:
            self.unmarked_on_host = True

    @contextlib.contextmanager
    def active(self):
        """Run the library on the simulated device."""
        real_launch, real_load = wp.launch, bridge._load
        real_describe = bridge.describe_arguments

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
            if self.graph is not None:
                self.graph.launch(real_launch, kernel, size, tuple(inner), list(inputs[1:]))
            self.threads[name] = max(self.threads[name], size * math.prod(inner))
            self.schedule.run(real_launch, kernel, size, tuple(inner), list(inputs[1:]))

        def describe(kernel, args):
            for tensor in (each for each in args if isinstance(each, torch.Tensor)):
                assert not _is_host(tensor), "a kernel was given a host tensor"
                if self.graph is not None:
                    self.graph.keep(tensor)
                if tensor.numel():
                    self.described[tensor.data_ptr()] = StorageWeakRef(tensor.untyped_storage())
            described = real_describe(kernel, args)
            assert len(described) == len(args), "a launch on CUDA took the rows of a CPU"
            return described

        def load(*args, **kwargs):
            if self.graph is not None:
                self.graph.refuse("kernels are loaded")
            return real_load(*args, **kwargs)

        def no_threads(*args, **kwargs):
            raise AssertionError("CUDA work was given to the thread pool")

        with contextlib.ExitStack() as stack:
            for target, name, new in (
                (wp, "launch", launch),
                (wp, "stream_from_torch", lambda stream: stream),
                (wp, "device_from_torch", lambda device: "cpu"),
                (torch.cuda, "current_stream", lambda device=None: self._stream(device)),
                (torch.cuda, "get_device_properties", lambda device: _PROPERTIES),
                (bridge, "describe_arguments", describe),
                (bridge, "_load", load),
                (torch.cuda, "is_current_stream_capturing", lambda: self.graph is not None),
                (threads, "run_jobs", no_threads),
            ):
                stack.enter_context(mock.patch.object(target, name, new))
            stack.enter_context(self)
            stack.enter_context(_Operators(self))
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


class _Operators(TorchDispatchMode):
    """Sees torch's operators below autograd, also those inside of others and of backward nodes."""

    def __init__(self, fake: FakeCuda):
        super().__init__()
        self.fake = fake

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = [t for t in _flat((args, kwargs)) if isinstance(t, torch.Tensor)]
        default = self.fake.unmarked_on_host
        placed = [t for t in tensors if not getattr(t, "on_host", default)]
        if placed and _makes_host_wait(func, args, kwargs):
            self.fake.wait(func._schema.name)
        result = func(*args, **kwargs)
        if tensors:
            for out in _flat(result):
                if isinstance(out, torch.Tensor):
                    out.on_host = not placed
        if self.fake.graph is not None and placed:
            self.fake.graph.operator(func, args, kwargs, result)
        return result


def _makes_host_wait(func, args: tuple, kwargs: dict) -> bool:
    name = func._schema.name.partition("::")[2]
    if name in _TAKE_MASKS:
        indices = [part for part in _flat(args[1]) if isinstance(part, torch.Tensor)]
        return any(part.dtype in (torch.bool, torch.uint8) for part in indices)
    if name == "repeat_interleave":
        return kwargs.get("output_size") is None
    return name in _WAITS


def _implementation(name: str, args: tuple):
    """The body of an operator of the library, with its gradient where one is recorded."""
    differentiable = torch.is_grad_enabled() and torch._C._any_requires_grad(*args)
    return GRADIENTS[name] if differentiable and name in GRADIENTS else IMPLEMENTATIONS[name]


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


def _record_implementations() -> tuple[dict, dict]:
    """The Python bodies of all operators by name, as they are registered on import, and the
    functions that record their gradients."""
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
    registered = vars(importlib.import_module("permutogeo.ops._library").ops)
    eager = {name: getclosurevars(call).nonlocals["eager"] for name, call in registered.items()}
    return found, {name: function for name, function in eager.items() if function is not None}


IMPLEMENTATIONS, GRADIENTS = _record_implementations()
