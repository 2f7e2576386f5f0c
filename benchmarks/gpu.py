"""Timings on a CUDA device beside the time that its memory needs, as one block to send to us."""

from __future__ import annotations

import json
from collections.abc import Callable
from statistics import median

import torch

import permutogeo as pg
from permutogeo.benchmarks.roofline import Work, works
from permutogeo.benchmarks.timing import console
from permutogeo.runtime import bridge


def gpu(quick: bool = False) -> None:
    """Time the lattice on the current CUDA device and print a report to send to us."""
    if not torch.cuda.is_available():
        console.print(
            "No CUDA device was found, so there is nothing to time here. On a machine with an "
            "NVIDIA card and a CUDA build of torch, please run 'permutogeo bench gpu' and send us "
            "its output: no card has run these kernels yet. 'permutogeo bench occupancy' shows "
            "what the compiler says about them without one.",
            soft_wrap=True,
        )
        return
    device = torch.device("cuda", torch.cuda.current_device())
    report = {"device": torch.cuda.get_device_name(device), "torch": torch.__version__}
    report |= {"capability": list(torch.cuda.get_device_capability(device))}
    report |= {"cuda": torch.version.cuda, "permutogeo": pg.__version__, **bridge.versions()}
    bandwidth = measured_bandwidth(device, 2**20 if quick else 2**26)
    report |= {"copy_gb_per_s": round(bandwidth, 1), "cases": {}}
    for work in works(quick):
        report["cases"][work.name] = _case(work, device, bandwidth, 2 if quick else 20)
    console.print("Please send us this block; it holds no names and no paths of yours:")
    print("```json", json.dumps(report, indent=1), "```", sep="\n")


def measured_bandwidth(device: torch.device, count: int) -> float:
    """Return the GB/s of a copy of ``count`` floats, reads and writes counted."""
    source = torch.rand(count, device=device)
    target = torch.empty_like(source)
    return 8e-6 * count / _milliseconds(lambda: target.copy_(source), 20)


def _case(work: Work, device: torch.device, bandwidth: float, repeats: int) -> dict:
    feature, x = work.feature.to(device), work.x.to(device)
    lattice = pg.Lattice.build(feature)
    values = lattice.blur(lattice.splat(x))
    lattice.splat(x)  # the second splat sorts its plan
    calls = {
        "build": lambda: pg.Lattice.build(feature),
        "splat": lambda: lattice.splat(x),
        "blur": lambda: lattice.blur(values),
        "slice": lambda: lattice.slice(values),
    }
    size = {"points": lattice.num_points, "vertices": lattice.num_vertices}
    found: dict = {**size, "milliseconds": {}, "of_roofline": {}}
    bytes_moved = work.bytes_moved(lattice.num_vertices)
    with torch.no_grad():
        for name, call in calls.items():
            time = _milliseconds(call, repeats)
            found["milliseconds"][name] = round(time, 4)
            found["of_roofline"][name] = round(1e-6 * bytes_moved[name] / bandwidth / time, 3)
    host = lattice.to("cpu")
    exact = host.slice(host.blur(host.splat(work.x)))
    error = (lattice.slice(values).cpu() - exact).abs().max() / exact.abs().max()
    found["largest_error_beside_cpu"] = float(error)
    found["peak_mb"] = round(torch.cuda.max_memory_allocated(device) / 1e6, 1)
    return found


def _milliseconds(call: Callable[[], object], repeats: int) -> float:
    """Return the median time of a call on the device's stream."""
    times = []
    for index in range(repeats + 2):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        if index >= 2:  # the first calls compile kernels and fill caches
            times.append(begin.elapsed_time(end))
    return median(times)
