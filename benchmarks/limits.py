"""What is not a race: growth with size, threads, memory and the first call of a process."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time as clock
from collections.abc import Callable
from functools import partial
from statistics import median_low

import torch

import permutogeo as pg
from permutogeo.benchmarks.timing import in_turn, ms, table, threads


def scaling(quick: bool = False) -> None:
    """Time per point as the cloud grows at constant density."""
    sizes = (10**4, 10**5) if quick else (10**5, 10**6, 10**7)
    rows = []
    for dim in (3, 5):
        first = None
        for count in sizes:
            side = 10 * (count / 10**5) ** (1 / dim)
            feature = torch.rand(count, dim, generator=torch.Generator().manual_seed(0)) * side
            x = torch.rand(count, 4)
            lattice = pg.Lattice.build(feature)

            def filtered(feature=feature, x=x) -> torch.Tensor:
                lattice = pg.Lattice.build(feature)
                return lattice.slice(lattice.blur(lattice.splat(x)))

            contenders = {"build": lambda f=feature: pg.Lattice.build(f), "filter": filtered}
            time = in_turn(contenders, 3 if count > 10**6 else 9)
            each = {name: 1e6 * value / count for name, value in time.items()}
            first = first or each
            rows.append(
                [
                    f"{dim}-D, {count:.0e}",
                    f"{lattice.num_vertices / count:.2f}",
                    *(f"{each[name]:.0f}" for name in ("build", "filter")),
                    *(f"{each[name] / first[name]:.2f}" for name in ("build", "filter")),
                ]
            )
    columns = ["points", "vertices per point", "build ns", "build + filter ns"]
    columns += ["÷ first build", "÷ first filter"]
    table("Growth: time per point, 2 threads", columns, rows)


def speedup(quick: bool = False) -> None:
    """Two threads against one."""
    count = 10**4 if quick else 10**6
    rows = []
    for dim in (3, 5):
        feature = torch.rand(count, dim, generator=torch.Generator().manual_seed(0)) * 10
        lattice = pg.Lattice.build(feature)
        rows.append([f"{dim}-D, build", *_speedup(partial(pg.Lattice.build, feature))])
        for channels in (4, 16, 64):
            x = torch.rand(count, channels)
            values = lattice.splat(x)
            calls = {
                "splat": partial(lattice.splat, x),
                "blur": partial(lattice.blur, values),
                "slice": partial(lattice.slice, values),
            }
            for name, call in calls.items():
                rows.append([f"{dim}-D, {name}, C = {channels}", *_speedup(call)])
    columns = ["", "1 thread ms", "2 threads ms", "ratio"]
    table(f"Threads at {count:.0e} points", columns, rows)


def _speedup(call: Callable[[], object]) -> list[str]:
    time = {}
    for count in (1, 2):
        with threads(count):
            time |= in_turn({str(count): call}, 9)
    return [ms(time["1"]), ms(time["2"]), f"{time['1'] / time['2']:.2f}"]


def memory(quick: bool = False) -> None:
    """Peak memory of a build against what the lattice keeps, each in a process of its own."""
    count = 10**4 if quick else 10**6
    rows = []
    for dim in (2, 3, 5, 8):
        peak, kept = _child("_build_memory", str(count), str(dim))
        rows.append([f"{dim}-D", f"{kept:.0f}", f"{peak:.0f}", f"{peak / kept:.2f}"])
    table(f"Memory of a build, {count:.0e} points", ["", "kept MB", "peak MB", "ratio"], rows)


def _build_memory(count: str, dim: str) -> None:
    feature = torch.rand(int(count), int(dim)) * 10
    pg.Lattice.build(feature[:2000].clone())
    reset_peak()
    before = status("VmRSS")
    lattice = pg.Lattice.build(feature)
    kept = [lattice.vertex, lattice.weight, lattice.code]
    size = sum(part.numel() * part.element_size() for part in kept)
    print(json.dumps([(status("VmHWM") - before) / 1e3, size / 1e6]))


def reset_peak() -> None:
    """Let the kernel measure the most memory anew."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def status(field: str) -> int:
    """A figure of /proc/self/status, in kB."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field))


def startup(quick: bool = False) -> None:
    """The first filter call of a new process, beyond importing torch and Warp."""
    with tempfile.TemporaryDirectory() as folder:
        cold = _child("_first_call", cache=folder)
        warm = [_child("_first_call", cache=folder) for _ in range(1 if quick else 5)]
    rows = [["cold cache", ms(cold[0])], ["warm cache", ms(median_low(warm)[0])]]
    table("First filter call in a process, 5-D, after importing torch and Warp", ["", "ms"], rows)


def _first_call() -> None:
    importlib.import_module("warp")  # torch is there already, and ours comes on first use
    start = clock.perf_counter()
    pg.functional.gaussian_filter(torch.rand(1000, 3), torch.rand(1000, 5))
    print(json.dumps([1e3 * (clock.perf_counter() - start)]))


def _child(function: str, *args: str, cache: str | None = None) -> list[float]:
    """Call a function of this file in a new process and read what it prints."""
    call = f"from permutogeo.benchmarks import limits; limits.{function}{args!r}"
    environment = os.environ | ({"WARP_CACHE_PATH": cache} if cache else {})
    command = [sys.executable, "-c", call]
    result = subprocess.run(command, capture_output=True, check=True, env=environment)
    return json.loads(result.stdout)
