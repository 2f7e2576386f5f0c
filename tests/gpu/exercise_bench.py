"""Runs the report of ``permutogeo bench gpu`` on the simulated device and prints it as JSON.

Usage: ``exercise_bench.py FOLDER``, which takes headers and kernels. CUDA graphs and the CPU's
results are left out (``exercise_capture.py``, ``exercise_layers.py``); synchronizations are those
that the simulated device counts.
"""

import contextlib
import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import torch
from atomic_headers import use_atomic_headers
from fake_cuda import DEVICE, FakeCuda  # first

from permutogeo.benchmarks import gpu


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.time = time.perf_counter()

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return 1e3 * (end.time - self.time)


def main(folder):
    use_atomic_headers(Path(folder))
    fake = FakeCuda()

    def host_waits(call):
        before = sum(fake.reads.values())
        call()
        return sum(fake.reads.values()) - before

    def gradients(out, leaves):
        for leaf in leaves:
            leaf.grad = None
        fake.backward(out, torch.ones_like(out))
        return [leaf.grad for leaf in leaves]

    card = SimpleNamespace(total_memory=8 * 2**30, multi_processor_count=1)
    with contextlib.ExitStack() as stack:
        stack.enter_context(fake.active())
        for target, name, new in (
            (torch.cuda, "get_device_name", lambda device: "simulated"),
            (torch.cuda, "get_device_capability", lambda device: (0, 0)),
            (torch.cuda, "get_device_properties", lambda device: card),
            (torch.cuda, "Event", Event),
            (torch.cuda, "reset_peak_memory_stats", lambda device: None),
            (torch.cuda, "max_memory_allocated", lambda device: 0),
            (gpu, "_host_waits", host_waits),
            (gpu, "_gradients", gradients),
            (gpu, "_errors", lambda *args: {}),
        ):
            stack.enter_context(mock.patch.object(target, name, new))
        print(json.dumps(gpu.report(DEVICE, quick=True)))


if __name__ == "__main__":
    main(sys.argv[1])
