"""Lattices over two processes, and a model of the exchange between 64."""

from __future__ import annotations

import json
import math
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
    for kind, count in (("scan, 3-D", 4e7), ("image, 5-D", 1e7)):
        found = _measure(kind, int(count * share))
        rows = [[name, *(cells.get(name, "") for cells in found)] for name in found[-1]]
        title = f"{kind}: {count * share:.0e} points, {_CHANNELS} channels, one thread a process"
        table(title, ["", "one process", "rank 0 of 2", "rank 1 of 2"], rows)
    _print_model(10**4 if quick else 8 * 10**6)


def cloud(kind: str, count: int, first: int, last: int) -> Tensor:
    """Return the features of the points ``first .. last`` of a cloud of ``count`` points.

    A scan: a terrain in 3-D, about eight points in each square of one bandwidth. An image: pixels
    with noisy colors in 5-D, bandwidths of 16 pixels and 0.1. Points are ordered in rows.
    """
    features = _scan if kind.startswith("scan") else _image
    out = torch.empty(last - first, 3 if kind.startswith("scan") else 5)
    for part in torch.arange(first, last).split(2**20):  # in chunks, for little working memory
        row, column = part // int(count**0.5), part % int(count**0.5)
        noise = torch.randn(len(part), 3, generator=torch.Generator().manual_seed(int(part[0])))
        out[int(part[0]) - first :][: len(part)] = features(row.double(), column.double(), noise)
    return out


def _scan(row: Tensor, column: Tensor, noise: Tensor) -> Tensor:
    x, y = row / 8**0.5, column / 8**0.5
    z = 8 * (x / 31).sin() * (y / 47).cos() + 2 * (x / 5 + y / 7).sin() + 0.3 * noise[:, 0]
    return torch.stack([x, y, z], 1)


def _image(row: Tensor, column: Tensor, noise: Tensor) -> Tensor:
    waves = [(row / 90 + k).sin() * (column / (70 + 10 * k)).cos() for k in range(3)]
    color = 0.5 + 0.4 * torch.stack(waves, 1) + 0.02 * noise
    return torch.cat([torch.stack([row, column], 1) / 16, color / 0.1], 1)


def _measure(kind: str, count: int) -> list[dict[str, str]]:
    """Return the figures of one process and of each of two ranks."""
    cells = []
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
        cells += [_cells(one) for one in found]
    return cells


def _cells(one: dict) -> dict[str, str]:
    cells = {"points": f"{one['points']:.3g}", "vertices": f"{one['vertices']:.3g}"}
    for name in ("build", "filter", "convolve"):
        seconds, waited = one["seconds"][name], one["waited"][name]
        cells[f"{name}, s (of it exchanging)"] = f"{seconds:.3g} ({100 * waited / seconds:.0f} %)"
    for name, sent in one["bytes"].items():
        cells[f"{name}, MB sent"] = f"{sent / 1e6:.3g}"
    if one["moving"]:
        cells["peak of the partition, GB"] = f"{one['moving']:.2f}"
    cells["peak of the rest, GB"] = f"{one['peak']:.2f}"
    return cells


def _run_rank(kind: str, count: int, rank: int, size: int, folder: str) -> None:
    """Filter the part of a rank, and write what it took."""
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    pg.distributed.ShardedLattice.build(cloud(kind, 100, 0, 100))  # loads the kernels
    start = status("VmRSS")
    feature = cloud(kind, count, count * rank // size, count * (rank + 1) // size)
    reset_peak()
    steps, moving = _Steps(), 0.0
    if size > 1:
        feature = steps.run("move", lambda: pg.distributed.partition(feature).move(feature))
        moving = (status("VmHWM") - start) / 1e9
    reset_peak()
    build = pg.Lattice.build if size == 1 else pg.distributed.ShardedLattice.build
    with torch.no_grad():
        lattice = steps.run("build", lambda: build(feature))
        x = torch.ones(len(feature), _CHANNELS)
        taps = torch.ones(2 ** (lattice.dim + 1) - 1, _CHANNELS, _CHANNELS)
        for _ in range(2):  # the first call finds the halo, the second one counts
            steps.run("filter", lambda: lattice.slice(lattice.blur(lattice.splat(x))))
            steps.run("convolve", lambda: lattice.slice(lattice.convolve(lattice.splat(x), taps)))
    peak = (status("VmHWM") - start) / 1e9
    out = {"points": len(feature), "vertices": lattice.num_vertices, "peak": peak, "moving": moving}
    out |= {"seconds": steps.seconds, "waited": steps.waited, "bytes": steps.sent}
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
    density, vertices grow with the area and those next to the border of a part with its length: the
    vertices sent fall by 2, relative to those owned, when the points quadruple. Where they fall by
    less in what is measured, parts are still thinner than the halo, and that slope is continued.
    """
    rows = []
    for kind, dim in (("scan", 3), ("image", 5)):
        name = f"{kind}, {dim}-D"
        small, large = (_surface(cloud(name, n, 0, n)) for n in (count // 4, count))
        owned = large.vertices * _POINTS / count
        for layer, (mean, most) in large.ghosts.items():
            before, after = small.ghosts[layer][0] / small.vertices, mean / large.vertices
            fall = before / after
            ratio = after * (count / _POINTS) ** math.log(min(fall, 2.0), 4)
            sent = ratio * owned * _WIDTH * 4 * most / mean
            taps = (2**dim * 2 - 1) * _WIDTH if layer == "convolve" else 3 * (dim + 1)
            figures = [before, after, fall, ratio, owned, sent / 1e6]
            figures += [8e3 * sent / (rate * 1e9) for rate in _NETWORKS]
            cells = [f"{figure:.3g}" for figure in [*figures, 2 * owned * _WIDTH * taps / sent]]
            rows.append([f"{kind}, {layer}", *cells])
    columns = ["vertices sent ÷ own", f"{count // 4:.0e} points", f"{count:.0e} points", "fall"]
    columns += [f"{_POINTS:.0e} points", "own vertices", "MB"]
    columns += [*(f"ms at {rate} Gb/s" for rate in _NETWORKS), "flop/byte"]
    title = (
        f"Model of {_RANKS} ranks, {_POINTS:.0e} points, {_WIDTH} channels: ratios are means, MB "
    )
    table(f"{title}and ms of the rank that sends most", columns, rows)


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
