"""Scaling benchmarks: size, threads, memory, start-up."""

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
    """Time per point for point clouds of growing size at constant density."""
    sizes = (10**3, 10**4) if quick else (10**5, 10**6, 10**7)
    rows = []
    for dim in (3,) if quick else (3, 5):
        first = None
        for count in sizes:
            side = 10 * (count / 10**5) ** (1 / dim)
            feature = torch.rand(count, dim, generator=torch.Generator().manual_seed(0)) * side
            x = torch.rand(count, 4)
            lattice = pg.Lattice.build(feature)

            def filtered(feature=feature, x=x) -> torch.Tensor:
                lattice = pg.Lattice.build(feature)
                return lattice.slice(lattice.blur(lattice.splat(x)))

            contenders = {"build": partial(pg.Lattice.build, feature), "filter": filtered}
            time = in_turn(contenders, 1 if quick else 3 if count > 10**6 else 9)
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
    """Time two threads against one."""
    count, repeats = (10**3, 1) if quick else (10**6, 9)
    rows = []
    for dim in (3,) if quick else (3, 5):
        feature = torch.rand(count, dim, generator=torch.Generator().manual_seed(0)) * 10
        lattice = pg.Lattice.build(feature)
        rows.append([f"{dim}-D, build", *_speedup(partial(pg.Lattice.build, feature), repeats)])
        for channels in (4,) if quick else (4, 16, 64):
            x = torch.rand(count, channels)
            values = lattice.splat(x)
            calls = {
                "splat": partial(lattice.splat, x),
                "blur": partial(lattice.blur, values),
                "slice": partial(lattice.slice, values),
            }
            for name, call in calls.items():
                rows.append([f"{dim}-D, {name}, C = {channels}", *_speedup(call, repeats)])
    columns = ["", "1 thread ms", "2 threads ms", "ratio"]
    table(f"Threads at {count:.0e} points", columns, rows)


def _speedup(call: Callable[[], object], repeats: int) -> list[str]:
    time = {}
    for count in (1, 2):
        with threads(count):
            time |= in_turn({str(count): call}, repeats)
    return [ms(time["1"]), ms(time["2"]), f"{time['1'] / time['2']:.2f}"]


def memory(quick: bool = False) -> None:
    """Peak memory of a build and size of the lattice, each measured in a fresh process."""
    count = 10**4 if quick else 10**6
    rows = []
    for dim in (2,) if quick else (2, 3, 5, 8):
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
    print(json.dumps([(status("VmHWM") - before) / 1e6, size / 1e6]))


def reset_peak() -> None:
    """Reset the peak memory that the operating system records."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def status(field: str) -> int:
    """Return a field of /proc/self/status in bytes."""
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(field))


def startup(quick: bool = False) -> None:
    """Time the first filter call of a process, after importing torch and Warp."""
    with tempfile.TemporaryDirectory() as folder:
        cold = _child("_first_call", cache=folder)
        warm = [_child("_first_call", cache=folder) for _ in range(1 if quick else 5)]
    rows = [["cold cache", ms(cold[0])], ["warm cache", ms(median_low(warm)[0])]]
    table("First filter call in a process, 5-D, after importing torch and Warp", ["", "ms"], rows)


def _first_call() -> None:
    importlib.import_module("warp")  # not counted, like torch; kernels load at the first call
    start = clock.perf_counter()
    pg.functional.gaussian_filter(torch.rand(1000, 3), torch.rand(1000, 5))
    print(json.dumps([1e3 * (clock.perf_counter() - start)]))


def _child(function: str, *args: str, cache: str | None = None) -> list[float]:
    """Call a function of this file in a new process and return the JSON that it prints."""
    call = f"from permutogeo.benchmarks import limits; limits.{function}{args!r}"
    environment = os.environ | ({"WARP_CACHE_PATH": cache} if cache else {})
    command = [sys.executable, "-c", call]
    result = subprocess.run(command, capture_output=True, check=True, env=environment)
    return json.loads(result.stdout)
