"""Report of a CUDA card: parity with the CPU, timings beside the time that memory needs, host
synchronizations and a CUDA graph, as one block to send to us."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

import permutogeo as pg
from permutogeo.benchmarks.roofline import Work, works
from permutogeo.benchmarks.timing import console
from permutogeo.runtime import bridge

_WARM_UP = 3


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
    found = report(torch.device("cuda", torch.cuda.current_device()), quick)
    console.print("Please send us this block; it holds no names and no paths of yours:")
    print("```json", json.dumps(found, indent=1), "```", sep="\n")


def report(device: torch.device, quick: bool) -> dict:
    """Return the report of a device. What fails is reported as its error."""
    found = _machine(device)
    bandwidth = measured_bandwidth(device, 2**20 if quick else 2**26)
    found |= {"copy_gb_per_s": round(bandwidth, 1), "cases": {}}
    for work in works(quick):
        found["cases"][work.name] = _case(work, device, bandwidth, 2 if quick else 20)
    return found


def measured_bandwidth(device: torch.device, count: int) -> float:
    """Return the GB/s of a copy of ``count`` floats, reads and writes counted."""
    source = torch.rand(count, device=device)
    target = torch.empty_like(source)
    return 8e-6 * count / _milliseconds(lambda: target.copy_(source), 20)


def _machine(device: torch.device) -> dict:
    card = torch.cuda.get_device_properties(device)
    versions = bridge.versions()
    return {
        "device": torch.cuda.get_device_name(device),
        "capability": list(torch.cuda.get_device_capability(device)),
        "multiprocessors": getattr(card, "multi_processor_count", None),
        "memory_gb": round(card.total_memory / 1e9, 1),
        "driver": _driver(),
        "permutogeo": pg.__version__,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "warp": versions["warp"],
        "warp_cuda_toolkit": versions["cuda_toolkit"],
        "python": platform.python_version(),
        "system": platform.system(),
    }


def _driver() -> str | None:
    """Return version of the driver, clocks and power limit of each card."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    fields = "name,driver_version,clocks.max.sm,clocks.max.mem,power.limit,ecc.mode.current"
    command = [tool, f"--query-gpu={fields}", "--format=csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def _case(work: Work, device: torch.device, bandwidth: float, repeats: int) -> dict:
    feature, x = work.feature.to(device), work.x.to(device)
    torch.cuda.reset_peak_memory_stats(device)
    lattice = pg.Lattice.build(feature)
    channels, taps = x.shape[1], lattice.neighbors(stencil="axis").shape[1]
    bank = torch.randn(taps, channels, channels, generator=torch.Generator().manual_seed(0))
    weight = (bank / taps).to(device)
    values = lattice.blur(lattice.splat(x))
    calls: dict[str, Callable[[], Any]] = {
        "build": lambda: pg.Lattice.build(feature),
        "splat": lambda: lattice.splat(x),
        "blur": lambda: lattice.blur(values),
        "slice": lambda: lattice.slice(values),
        "convolve": lambda: lattice.convolve(values, weight, stencil="axis"),
        "locate": lambda: lattice.locate(feature),
        "neighbors": lambda: pg.ops.neighbors(lattice.code, lattice.box, 1, 1, "axis"),
        "splat_plan": lambda: pg.ops.splat_plan(
            lattice.vertex, lattice.num_vertices, None, None, True
        ),
    }
    step = _training_step(lattice, x, weight)
    size = {"points": lattice.num_points, "vertices": lattice.num_vertices, "channels": channels}
    found: dict = {**size, "milliseconds": {}, "of_roofline": {}, "host_waits": {}}
    moved = work.bytes_moved(lattice.num_vertices)
    for name, call in (calls | {"forward and backward": step}).items():
        time = _attempt(lambda call=call: _milliseconds(call, repeats))  # type: ignore[misc]
        found["milliseconds"][name] = time if isinstance(time, str) else round(time, 4)
        if name in moved and not isinstance(time, str):
            found["of_roofline"][name] = round(1e-6 * moved[name] / bandwidth / time, 3)
        found["host_waits"][name] = _attempt(lambda call=call: _host_waits(call))  # type: ignore[misc]
    found["largest_error_beside_cpu"] = _attempt(lambda: _errors(lattice, x, weight))
    found["graph"] = _attempt(lambda: _graph(step, repeats))
    found["peak_mb"] = round(torch.cuda.max_memory_allocated(device) / 1e6, 1)
    return found


def _training_step(lattice: pg.Lattice, x: torch.Tensor, weight: torch.Tensor) -> Callable:
    """Return a forward and backward pass on a kept lattice, with gradients of values and filter."""
    leaves = [x.clone().requires_grad_(), weight.clone().requires_grad_()]

    def step() -> list[torch.Tensor]:
        values = lattice.convolve(lattice.splat(leaves[0]), leaves[1], stencil="axis")
        out = lattice.slice(lattice.blur(values))
        return [out, *_gradients(out, leaves)]

    return step


def _gradients(out: torch.Tensor, leaves: list[torch.Tensor]) -> list[torch.Tensor]:
    return list(torch.autograd.grad(out, leaves, torch.ones_like(out)))


def _errors(lattice: pg.Lattice, x: torch.Tensor, weight: torch.Tensor) -> dict[str, float]:
    """Return differences from a lattice that the CPU builds, relative to the largest value."""
    host = pg.Lattice.build(lattice.feature.cpu())
    x_host, weight_host = x.cpu(), weight.cpu()
    same = torch.equal(lattice.code.cpu(), host.code)
    same = same and torch.equal(lattice.vertex.cpu(), host.vertex)
    if not same:  # weights of points on a face may round to either side
        host = lattice.to("cpu")
    splatted = host.splat(x_host)
    pairs = {
        "weight": (lattice.weight, host.weight),
        "splat": (lattice.splat(x), splatted),
        "blur": (lattice.blur(lattice.splat(x)), host.blur(splatted)),
        "slice": (lattice.slice(lattice.splat(x)), host.slice(splatted)),
    }
    steps = (_training_step(lattice, x, weight)(), _training_step(host, x_host, weight_host)())
    names = ("convolve and slice", "gradient of values", "gradient of filter")
    pairs |= {name: pair for name, *pair in zip(names, *steps, strict=True)}
    found = {"same_vertices": float(same)}
    for name, (ours, exact) in pairs.items():
        exact = exact.detach()
        found[name] = float((ours.detach().cpu() - exact).abs().max() / exact.abs().max())
    return found


def _host_waits(call: Callable[[], object]) -> int:
    """Return how often the host waits for the device in a call, as torch counts it."""
    call()
    torch.cuda.synchronize()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            call()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(each.message) for each in caught)


def _graph(step: Callable[[], list[torch.Tensor]], repeats: int) -> dict[str, float]:
    """Capture a step and return the time of a replay and its difference from the step itself."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(_WARM_UP):
            exact = step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step()
    time = _milliseconds(graph.replay, repeats)
    pairs = zip(found, exact, strict=True)
    error = max(float((a - b).detach().abs().max() / b.detach().abs().max()) for a, b in pairs)
    return {"milliseconds": round(time, 4), "largest_error": error}


def _attempt(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or its error: the rest of a report is worth having."""
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


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
