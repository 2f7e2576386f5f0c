"""Benchmark of ``permutogeo.compat.spconv`` beside spconv, on the voxels of W3."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch

from permutogeo.benchmarks import peers
from permutogeo.benchmarks.timing import in_turn, ms, table, threads

OURS = "permutogeo.compat.spconv.pytorch"
# Layer, its options, input and output channels.
LAYERS = {
    "SubMConv3d 3³, 64 → 64": ("SubMConv3d", {"kernel_size": 3}, 64, 64),
    "SubMConv3d 3³, 16 → 32": ("SubMConv3d", {"kernel_size": 3}, 16, 32),
    "SubMConv3d 5³, 6 → 32": ("SubMConv3d", {"kernel_size": 5}, 6, 32),
    "SparseConv3d 2³ / 2, 64 → 64": ("SparseConv3d", {"kernel_size": 2, "stride": 2}, 64, 64),
}
PASSES = ("forward", "with rules", "with backward")


def shell_indices(radius: float) -> tuple[torch.Tensor, int]:
    """Return the voxels of a spherical shell with their batch index, and the extent of the grid."""
    side = np.arange(-int(radius) - 3, int(radius) + 4)
    voxel = np.stack(np.meshgrid(side, side, side, indexing="ij"), -1).reshape(-1, 3)
    voxel = voxel[np.abs(np.linalg.norm(voxel, axis=1) - radius) < 0.5] + int(radius) + 3
    indices = np.pad(voxel, ((0, 0), (1, 0))).astype(np.int32)
    return torch.from_numpy(np.ascontiguousarray(indices)), len(side)


class Contender:
    """One layer of one library, with the voxels of a shell."""

    def __init__(self, library: str, name: str, radius: float):
        self.spconv = importlib.import_module(library)
        kind, options, channels, outputs = LAYERS[name]
        self.indices, self.extent = shell_indices(radius)
        generator = torch.Generator().manual_seed(0)
        self.features = torch.randn(len(self.indices), channels, generator=generator)
        self.layer = getattr(self.spconv, kind)(channels, outputs, bias=False, **options)
        weight = torch.randn(self.layer.weight.shape, generator=generator)
        self.layer.weight.data.copy_(weight / weight[0].numel() ** 0.5)
        self.subm = kind.startswith("SubM")
        self.layer.indice_key = "shell" if self.subm else None
        self.made = self.layer(self.tensor(self.features))
        self.gradient = torch.randn(self.made.features.shape, generator=generator)

    def tensor(self, features: torch.Tensor) -> Any:
        return self.spconv.SparseConvTensor(features, self.indices, [self.extent] * 3, 1)

    def known(self, features: torch.Tensor) -> Any:
        """The voxels with their rule, where the layer can reuse it."""
        return self.made.replace_feature(features) if self.subm else self.tensor(features)

    def passes(self) -> dict[str, Callable[[], Any]]:
        leaf = self.features.clone().requires_grad_()

        def forward() -> torch.Tensor:
            with torch.no_grad():
                return self.layer(self.known(self.features)).features

        def with_rules() -> torch.Tensor:
            with torch.no_grad():
                return self.layer(self.tensor(self.features)).features

        def with_backward() -> tuple[torch.Tensor, ...]:
            out = self.layer(self.known(leaf)).features
            return torch.autograd.grad(out, (leaf, self.layer.weight), self.gradient)

        return dict(zip(PASSES, (forward, with_rules, with_backward), strict=True))


def race(name: str, radius: float, repeats: int) -> None:
    """Print processor times of both libraries in turn, and how far apart their outputs are.

    For a process with one OpenMP thread: with more, spconv's CPU results are wrong.
    """
    from spconv.pytorch import cppcore, ops

    # The backward of spconv asks for CUDA's stream, also on a CPU.
    ops.get_current_stream = cppcore.get_current_stream = lambda: 0
    torch.set_num_threads(1)
    both = {
        "theirs": Contender("spconv.pytorch", name, radius),
        "ours": Contender(OURS, name, radius),
    }
    features = [_ascending(each.made) for each in both.values()]
    times: dict[str, list[float]] = {}
    calls = {f"{key} {what}": c for key, e in both.items() for what, c in e.passes().items()}
    for call in calls.values():
        call()
    for _ in range(repeats):
        for key, call in calls.items():
            start = time.process_time()
            call()
            times.setdefault(key, []).append(time.process_time() - start)
    result = {key: 1e3 * median(values) for key, values in times.items()}
    difference = (features[0] - features[1]).abs().max() / features[0].abs().max()
    print(json.dumps(result | {"difference": float(difference)}))


def _ascending(x: Any) -> torch.Tensor:
    return x.features.detach()[np.lexsort(x.indices.numpy().T[::-1])]


def _race_in_a_process(name: str, radius: float, repeats: int) -> dict[str, float]:
    program = f"from permutogeo.benchmarks.spconv import race; race({name!r}, {radius}, {repeats})"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, env=environment
    )
    return json.loads(done.stdout.splitlines()[-1])


def spconv(quick: bool = False) -> None:
    """Sparse convolutions of ``compat.spconv`` on spherical shells, beside spconv."""
    for radius in (20.25,) if quick else (89.25, 20.25):
        _compare(radius, 3 if quick else 11)


def _compare(radius: float, repeats: int) -> None:
    installed, rows = peers.has("spconv"), []
    for name in LAYERS:
        contender = Contender(OURS, name, radius)
        time = _race_in_a_process(name, radius, repeats) if installed else {}
        for count in (1, 2):
            with threads(count):
                found = in_turn(contender.passes(), repeats)
            time |= {f"{count} {what}": value for what, value in found.items()}
        for what in PASSES:
            rows.append([name if what == PASSES[0] else "", what, *_row(time, what)])
    count = len(shell_indices(radius)[0])
    columns = ["layer", "pass", "spconv ms", "ours ms", "spconv ÷ ours"]
    columns += ["wall, 1 thread", "2 threads", "difference"]
    table(f"compat.spconv on {count:,} voxels of a shell", columns, rows)


def _row(time: dict[str, float], what: str) -> list[str]:
    wall = [ms(time[f"1 {what}"]), ms(time[f"2 {what}"])]
    if "difference" not in time:
        return ["not installed", "", "", *wall, ""]
    theirs, ours = time[f"theirs {what}"], time[f"ours {what}"]
    difference = f"{time['difference']:.0e}" if what == PASSES[0] else ""
    return [ms(theirs), ms(ours), f"{theirs / ours:.2f}", *wall, difference]
