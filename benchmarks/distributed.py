"""Lattices over two processes, and a model of the exchange between 64."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time as clock
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

import permutogeo as pg
from permutogeo.benchmarks.limits import reset_peak, status
from permutogeo.benchmarks.timing import table
from permutogeo.distributed.halo import blur_needs
from permutogeo.distributed.points import first_corners
from permutogeo.distributed.ranges import divide_alone
from permutogeo.distributed.ranks import traffic

_CHANNELS = 4
_RANKS = 64
_POINTS = 10**9
# Values of a network: float32 in this many channels.
_WIDTH = 32
# Gigabit per second and rank.
_NETWORKS = (10, 100, 400)


def distributed(quick: bool = False) -> None:
    """Measure two ranks against one process, and model 64 ranks with 1e9 points."""
    # PERMUTOGEO_POINTS=0.1 measures a tenth of the points, on machines with less memory.
    share = 1e-3 if quick else float(os.environ.get("PERMUTOGEO_POINTS", "1"))
    rows = []
    for kind, count in (("scan, 3-D", 4e7), ("image, 5-D", 1e7)):
        rows += _measure(kind, int(count * share))
    columns = ["", "points", "vertices", "build s", "filter s", "convolve s", "in exchange"]
    columns += ["sent: move", "build", "filter", "convolve", "peak GB"]
    title = f"Ranks of one thread each; blur and 15 or 63 taps, {_CHANNELS} channels; MB sent"
    table(title, columns, rows)
    _print_model(10**4 if quick else 2 * 10**6)


def cloud(kind: str, count: int, first: int, last: int) -> Tensor:
    """Return the features of the points ``first .. last`` of a cloud of ``count`` points.

    A scan: a terrain in 3-D, about eight points in each square of one bandwidth. An image: pixels
    with noisy colors in 5-D, bandwidths of 16 pixels and 0.1. Points are ordered in rows.
    """
    index = torch.arange(first, last, dtype=torch.float64)
    side = int(count**0.5)
    row, column = index // side, index % side
    noise = torch.Generator().manual_seed(first)
    if kind.startswith("scan"):
        x, y = row / 8**0.5, column / 8**0.5
        z = 8 * (x / 31).sin() * (y / 47).cos() + 2 * (x / 5 + y / 7).sin()
        z += 0.3 * torch.randn(len(index), generator=noise, dtype=torch.float64)
        return torch.stack([x, y, z], 1).float()
    waves = [(row / 90 + k).sin() * (column / (70 + 10 * k)).cos() for k in range(3)]
    color = 0.5 + 0.4 * torch.stack(waves, 1).float()
    color += 0.02 * torch.randn(len(index), 3, generator=noise)
    return torch.cat([torch.stack([row, column], 1).float() / 16, color / 0.1], 1)


def _measure(kind: str, count: int) -> list[list[str]]:
    """Return a row for one process and one for each of two ranks."""
    rows = []
    for size in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            call = "from permutogeo.benchmarks import distributed as d; d._run_rank"
            commands = [
                [sys.executable, "-c", f"{call}({kind!r}, {count}, {rank}, {size}, {folder!r})"]
                for rank in range(size)
            ]
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            running = [subprocess.Popen(command, env=environment) for command in commands]
            for process in running:
                if process.wait():
                    raise RuntimeError(f"A rank of {kind!r} ended with {process.returncode}")
            found = [json.loads((Path(folder) / f"{rank}").read_text()) for rank in range(size)]
        for rank, one in enumerate(found):
            name = f"{kind}, one process" if size == 1 else f"{kind}, rank {rank} of 2"
            rows.append([name, *_cells(one)])
    return rows


def _cells(one: dict) -> list[str]:
    seconds, megabytes = one["seconds"], {name: b / 1e6 for name, b in one["bytes"].items()}
    share = one["waited"] / max(1e-9, sum(seconds.values()))
    return [
        f"{one['points']:.3g}",
        f"{one['vertices']:.3g}",
        *(f"{seconds[name]:.3g}" for name in ("build", "filter", "convolve")),
        f"{100 * share:.0f} %",
        *(f"{megabytes[name]:.3g}" for name in ("move", "build", "filter", "convolve")),
        f"{one['peak']:.2f}",
    ]


def _run_rank(kind: str, count: int, rank: int, size: int, folder: str) -> None:
    """Filter the part of a rank, and write what it took."""
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    pg.distributed.ShardedLattice.build(cloud(kind, 100, 0, 100))  # loads the kernels
    start = status("VmRSS")
    reset_peak()
    feature = cloud(kind, count, count * rank // size, count * (rank + 1) // size)
    traffic.bytes = 0
    if size > 1:
        feature = pg.distributed.partition(feature).move(feature)
    steps, sent = _Steps(), {"move": traffic.bytes}
    traffic.seconds = 0.0
    with torch.no_grad():
        lattice = steps.run(
            "build",
            lambda: (
                pg.Lattice.build(feature)
                if size == 1
                else pg.distributed.ShardedLattice.build(feature)
            ),
        )
        x = torch.ones(len(feature), _CHANNELS)
        # The first call finds the halo, the second one is what a layer takes.
        for _ in range(2):
            steps.run("filter", lambda: lattice.slice(lattice.blur(lattice.splat(x))))
        taps = torch.ones(2 ** (lattice.dim + 1) - 1, _CHANNELS, _CHANNELS)
        for _ in range(2):
            steps.run("convolve", lambda: lattice.slice(lattice.convolve(lattice.splat(x), taps)))
    peak = (status("VmHWM") - start) / 1e6
    out = {"points": len(feature), "vertices": lattice.num_vertices, "peak": peak}
    out |= {
        "seconds": steps.seconds,
        "bytes": steps.sent | sent,
        "waited": sum(steps.waited.values()),
    }
    (Path(folder) / f"{rank}").write_text(json.dumps(out))
    dist.destroy_process_group()


class _Steps:
    """Seconds, seconds in collectives and bytes of the last run of each step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.waited: dict[str, float] = {}
        self.sent: dict[str, int] = {}

    def run(self, name: str, call):
        if dist.get_world_size() > 1:
            dist.barrier()
        start, before = clock.perf_counter(), (traffic.seconds, traffic.bytes)
        result = call()
        self.seconds[name] = clock.perf_counter() - start
        self.waited[name], self.sent[name] = traffic.seconds - before[0], traffic.bytes - before[1]
        return result


@dataclass
class _Surface:
    """What 64 parts of a small cloud exchange: mean over the parts, and the largest."""

    vertices: float
    ghosts: dict[str, tuple[float, float]]


def _print_model(count: int) -> None:
    """Print bytes for each layer at 64 ranks and 1e9 points, scaled up from a smaller cloud.

    The points of a scan and the pixels of an image lie on a surface in feature space. At constant
    density, vertices grow with the area and those next to the border of a part with its length.
    """
    rows = []
    for kind, dim in (("scan, 3-D", 3), ("image, 5-D", 5)):
        surface = _surface(cloud(kind, count, 0, count))
        growth = _POINTS / count
        owned = surface.vertices * growth
        taps = 2 ** (dim + 1) - 1
        for name, (mean, most) in surface.ghosts.items():
            ghosts = most * growth**0.5
            sent = ghosts * _WIDTH * 4
            flops = 2 * owned * _WIDTH * (taps * _WIDTH if name == "convolve" else 3 * (dim + 1))
            rows.append(
                [
                    f"{kind}, {name}",
                    f"{mean / surface.vertices:.3f}",
                    f"{ghosts / owned:.4f}",
                    f"{owned:.3g}",
                    f"{sent / 1e6:.3g}",
                    *(f"{8e3 * sent / (rate * 1e9):.3g}" for rate in _NETWORKS),
                    f"{flops / sent:.3g}",
                ]
            )
    columns = ["", f"ghosts ÷ own at {count:.0e}", f"at {_POINTS:.0e}", "own vertices", "MB sent"]
    columns += [f"ms at {rate} Gb/s" for rate in _NETWORKS] + ["flop per byte"]
    table(
        f"Model: {_RANKS} ranks, {_POINTS:.0e} points, {_WIDTH} channels; the rank that sends most",
        columns,
        rows,
    )


def _surface(feature: Tensor) -> _Surface:
    """Count the vertices that 64 parts of a cloud read from each other."""
    lattice = pg.Lattice.build(feature)
    count = lattice.num_vertices
    ranges = divide_alone(lattice.code, first_corners(lattice.vertex, count), _RANKS)
    owner = ranges.owner(lattice.code)
    part = owner[lattice.vertex[:, 0].long()]
    touched = (part.unsqueeze(1) * count + lattice.vertex).flatten().unique()
    neighbors = lattice.neighbors().long()
    read = [(owner[near >= 0] * count + near[near >= 0]).unique() for near in neighbors.unbind(1)]
    needed = blur_needs(transpose=False)
    blurred = [
        rank * count + needed(lattice, owner == rank).nonzero()[:, 0] for rank in range(_RANKS)
    ]
    pairs = {
        "splat or slice": touched,
        "blur": torch.cat(blurred),
        "convolve": torch.cat(read).unique(),
    }
    ghosts = {}
    for name, pair in pairs.items():
        reader, vertex = pair // count, pair % count
        from_owner = owner[vertex][owner[vertex] != reader]
        sent = torch.bincount(from_owner, minlength=_RANKS).double()
        ghosts[name] = (float(sent.mean()), float(sent.max()))
    return _Surface(count / _RANKS, ghosts)
