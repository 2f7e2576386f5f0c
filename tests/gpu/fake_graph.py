"""CUDA graphs on the simulated device: a capture that refuses what CUDA refuses, and its replay."""

from __future__ import annotations

import contextlib
from unittest import mock

import torch
from fake_cuda import FakeCuda

from permutogeo.lattice import caching, incidence
from permutogeo.nn import stride


class Graph:
    """Launches and torch's operators on the device, recorded as a stream capture records them.

    A capture raises where the host would wait for the device, host memory would be copied, kernels
    would be loaded or a lattice would keep a result that only a replay computes.
    """

    def __init__(self, fake: FakeCuda):
        self.fake = fake
        self.steps: list = []
        self.launches = 0
        # What the pool of a graph would keep.
        self.memory: list[torch.Tensor] = []

    def refuse(self, what: str) -> None:
        raise RuntimeError(f"not permitted in a capture: {what}")

    def keep(self, tensor: torch.Tensor) -> None:
        self.memory.append(tensor)

    def launch(self, run, kernel, size: int, inner: tuple[int, ...], args: list) -> None:
        self.launches += 1
        self.steps.append(lambda: self.fake.schedule.run(run, kernel, size, inner, args))

    def operator(self, func, args: tuple, kwargs: dict, result) -> None:
        """Record an operator; its results are written to the same memory by a replay."""
        outputs = result if isinstance(result, (list, tuple)) else [result]
        outputs = [out for out in outputs if isinstance(out, torch.Tensor)]
        inputs = [part for part in (*args, *kwargs.values()) if isinstance(part, torch.Tensor)]
        owned = {part.untyped_storage().data_ptr() for part in inputs}
        made = [out.untyped_storage().data_ptr() not in owned for out in outputs]
        self.memory.extend((*inputs, *outputs))

        def again() -> None:
            found = func(*args, **kwargs)
            found = found if isinstance(found, (list, tuple)) else [found]
            found = [out for out in found if isinstance(out, torch.Tensor)]
            for new, out, is_made in zip(found, outputs, made, strict=True):
                if is_made:  # neither a view nor written in place
                    out.copy_(new)

        self.steps.append(again)

    @contextlib.contextmanager
    def capture(self):
        """Record what the device is asked to do, while the device is active."""
        real = caching.cached

        def cached(cache, name, make):
            if name not in cache:
                self.refuse(f"the lattice computes and keeps {name!r}")
            return real(cache, name, make)

        with contextlib.ExitStack() as stack:
            for module in (caching, incidence, stride):
                stack.enter_context(mock.patch.object(module, "cached", cached))
            stack.enter_context(mock.patch.object(self.fake, "graph", self))
            yield

    def replay(self) -> None:
        """Do it again, on the present contents of the same memory."""
        with torch.no_grad(), torch._C.DisableTorchFunction():
            for step in self.steps:
                step()
