"""Clouds larger than memory: time and memory by size, and errors at the seams of tiles.

``permutogeo bench tiles`` cleans generated surveys of 1e6 and 1e7 points (and of 1e8 with
``PERMUTOGEO_POINTS=1e8``); ``permutogeo bench seams`` compares tiled and whole results.
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data

from permutogeo.data import from_point_cloud
from permutogeo.data.formats.las_records import load_laspy
from permutogeo.datasets import write_terrain
from permutogeo.denoising import CloudDenoiser
from permutogeo.functional import gaussian_filter
from permutogeo.tiles import lattice_reach, map_tiles

# Bandwidths of the Gaussian filter of heights: metres in x and y, and in z.
SIGMA = (1.0, 1.0, 0.3)
# Points with less mass of others around them are outliers and are dropped.
LEAST_MASS = 1.6


def clean(data: Data) -> Data:
    """Drop outliers and smooth heights by one Gaussian filter over x, y and z.

    The filter of ones counts the neighbors of a point; alone, it is below ``LEAST_MASS``.
    """
    data = copy.copy(data)
    pos = data["pos"]
    local = pos - pos.mean(dim=0)
    feature = pos / torch.tensor(SIGMA, dtype=pos.dtype)
    x = torch.cat([local[:, 2:], torch.ones_like(local[:, :1])], dim=1)
    sums = gaussian_filter(x, feature, normalize=None)
    kept = sums[:, 1] > LEAST_MASS
    height = sums[:, 0] / sums[:, 1] + pos[:, 2].mean()
    data.pos = torch.cat([pos[:, :2], height[:, None]], dim=1)
    return data.subgraph(kept)


_CHILD = """
import json, resource, sys, time
from permutogeo.benchmarks.tiles import clean
from permutogeo.tiles import lattice_reach, map_tiles
source, target, memory = sys.argv[1], sys.argv[2], int(float(sys.argv[3]))
margin = lattice_reach(3)
start = time.process_time()
run = map_tiles(clean, source, None, margin, target, memory=memory, bytes_per_point=1000)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps([run.seconds, time.process_time() - start, peak, run.tiles, run.written]))
"""


def tiles(quick: bool = False) -> None:
    """Print time and peak memory of a survey cleaned in tiles, by its size."""
    import json

    load_laspy()  # before anything is printed
    largest = float(os.environ.get("PERMUTOGEO_POINTS", "1e7"))
    counts = [20_000] if quick else [n for n in (10**6, 10**7, 10**8) if n <= largest]
    memory = 2e8 if quick else 3e9
    print("Generated survey, outliers dropped and heights smoothed in tiles (working memory")
    print(f"{memory / 1e9:.1f} GB), LAZ to LAZ:")
    print("| points | tiles | seconds | processor s | ns per point | peak memory | height RMSE |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=os.environ.get("PERMUTOGEO_SCRATCH")) as name:
        for count in counts:
            source, target = Path(name, "in.laz"), Path(name, "out.laz")
            write_terrain(source, count)
            done = subprocess.run(
                [sys.executable, "-c", _CHILD, source, target, str(memory)],
                check=True,
                capture_output=True,
                text=True,
            )
            seconds, busy, peak, number, _ = json.loads(done.stdout.splitlines()[-1])
            before, after = height_error(source), height_error(target)
            print(
                f"| {count:,} | {number} | {seconds:.1f} | {busy:.1f} | {busy / count * 1e9:.0f} "
                f"| {peak / 1e9:.2f} GB | {before:.3f} to {after:.3f} m |",
                flush=True,
            )


def height_error(path: Path) -> float:
    """Return the RMSE of the heights of the ground in a generated survey."""
    total = [0.0, 0]

    def add(data: Data) -> None:
        chosen = data["core"] & (data["classification"] == 2)
        total[0] += float((data["pos"][:, 2] - data["clean_z"])[chosen].square().sum())
        total[1] += int(chosen.sum())

    map_tiles(add, path, None, 0.0, memory=2 * 10**9)
    return (total[0] / max(total[1], 1)) ** 0.5


def seams(quick: bool = False) -> None:
    """Print errors of the ground within 2 m of a seam and elsewhere, for margins of several widths.

    Differences from the result of the whole cloud come first, then height errors.
    """
    count, size = (4_000, 12.0) if quick else (200_000, 50.0)
    with tempfile.TemporaryDirectory() as name:
        path = write_terrain(Path(name, "in.laz"), count)
        denoise = partial(CloudDenoiser.from_pretrained(), remove_outliers=False)
        for title, function, margins in (
            ("Gaussian filter, reach 4.9 m", smooth, (1.0, 2.0, 3.0, lattice_reach(3))),
            ("learned denoiser", denoise, (2.0, 5.0, 10.0)),
        ):
            whole = function(from_point_cloud(path))
            whole = whole.pos[whole.gps_time.argsort()]
            print(f"{title}, {count:,} points in tiles of {size:g} m:")
            print("| margin (m) | seam: tiled - whole | inside | seam: error | inside: error |")
            print("|---|---|---|---|---|")
            for margin in margins[:2] if quick else margins:
                print(_seam_row(path, function, size, margin, whole))


def smooth(data: Data) -> Data:
    """Smooth heights by a Gaussian filter over x, y and z."""
    data = copy.copy(data)
    pos = data["pos"]
    feature = pos / torch.tensor(SIGMA, dtype=pos.dtype)
    height = gaussian_filter(pos[:, 2:], feature)
    data.pos = torch.cat([pos[:, :2], height], dim=1)
    return data


def _seam_row(path, function, size, margin, whole):
    found = []
    map_tiles(
        lambda data: found.append(_core(function(copy.copy(data)), data)), path, size, margin,
        memory=10**10,
    )  # fmt: skip
    pos, truth, time, label = (np.concatenate(part) for part in zip(*found, strict=True))
    order = time.argsort()
    pos, truth, label = pos[order], truth[order], label[order]
    change = np.linalg.norm(pos - whole.numpy(), axis=1)
    flat = pos[:, :2] / size
    near = (np.abs(flat - np.round(flat)) * size < 2.0).any(axis=1)
    ground = label == 2

    def rms(values, chosen):
        return float(np.sqrt(np.mean(values[chosen] ** 2)))

    error = pos[:, 2] - truth
    columns = [rms(change, near & ground), rms(change, ~near & ground)]
    columns += [rms(error, near & ground), rms(error, ~near & ground)]
    return f"| {margin:.1f} | " + " | ".join(f"{value:.2g} m" for value in columns) + " |"


def _core(result, data):
    core = data["core"].numpy()
    names = ("pos", "clean_z", "gps_time", "classification")
    return [result[name].numpy()[core] for name in names]
