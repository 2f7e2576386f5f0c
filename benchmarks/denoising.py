"""Mesh denoising: quality on pairs of clean and noisy meshes, and speed stage by stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch_geometric.data import Data

from permutogeo.benchmarks.smoothers import (
    ITERATIONS,
    QUICK_ITERATIONS,
    open3d_smoothers,
    trimesh_smoothers,
)
from permutogeo.benchmarks.timing import console, in_turn, ms, square_product, table, threads
from permutogeo.metrics import normal_angle, vertex_distance
from permutogeo.models import MeshDenoiser
from permutogeo.models._cascade import advance, begin
from permutogeo.models._triangles import Triangles
from permutogeo.transforms import NormalNoise

# Mean angles measured with the methods' public code; best is searched for each mesh.
PUBLISHED = {
    "block 0.4": ("7.06 / 5.09", "4.09 / 3.41", "3.99"),
    "fandisk 0.3": ("3.49 / 3.37", "2.93 / 2.52", "2.20"),
    "fandisk 0.7": ("30.52 / 12.16", "8.41 / 5.90", "7.59"),
    "sharpsphere 0.3": ("8.29 / 6.27", "8.17 / 7.68", "10.60"),
    "trimstar 0.5": ("13.01 / 9.76", "9.10 / 8.92", "7.92"),
    "bunny 0.2": ("6.64 / 5.20", "6.66 / 5.32", "7.32"),
    "julius 0.2": ("6.81 / 5.74", "7.97 / 6.46", "7.92"),
}
COLUMNS = [
    "",
    "noisy",
    "Open3D best",
    "trimesh best",
    "bilateral",
    "guided",
    "L0 best",
    "ours",
    "s",
]


def quality(quick: bool = False) -> None:
    """Mean normal angle in degrees, and in brackets vertex distance over mean edge length."""
    steps = QUICK_ITERATIONS if quick else ITERATIONS
    model = MeshDenoiser.from_pretrained()
    rows, settings = [], []
    for name, pair in pairs(quick):
        start = time.perf_counter()
        ours = model(pair).pos
        seconds = time.perf_counter() - start
        found = [best(pair, make(pair, steps)) for make in (open3d_smoothers, trimesh_smoothers)]
        settings.append(f"{name}: {found[0][0]}; {found[1][0]}")
        bilateral, guided, l0 = PUBLISHED.get(name, ("", "", ""))
        cells = [errors(pair.pos, pair), *(text for _, text in found), bilateral, guided, l0]
        rows.append([name, *cells, errors(ours, pair), f"{seconds:.1f}"])
    title = "Mean normal angle in degrees (vertex distance / mean edge); default / best, or best"
    table(title, COLUMNS, rows)
    console.print("Best of each search, against the clean mesh:", *settings, sep="\n  ")


def pairs(quick: bool) -> Iterable[tuple[str, Data]]:
    """The public pairs; a noisy torus where their files are not, or for a quick run."""
    try:
        if not quick:
            from permutogeo.datasets import DenoisingPairs

            found = {f"{pair.name} {pair.noise}": pair for pair in DenoisingPairs()}
            return [(name, found[name]) for name in PUBLISHED]
    except FileNotFoundError as error:
        console.print(f"{error} A torus stands in.")
    mesh = torus(40, 20)
    return [("torus 0.2", NormalNoise(0.2, keep="clean_pos", seed=0)(mesh))]


def best(
    pair: Data, smoothers: Iterable[tuple[str, Callable[[], torch.Tensor]]]
) -> tuple[str, str]:
    """The setting of the lowest angle, and its errors."""
    found = {}
    for name, smooth in smoothers:
        pos = smooth()
        found[name] = (float(normal_angle(pos, pair.clean_pos, pair.face)), errors(pos, pair))
    name = min(found, key=lambda setting: found[setting][0])
    return name, found[name][1]


def errors(pos: torch.Tensor, pair: Data) -> str:
    angle = normal_angle(pos, pair.clean_pos, pair.face)
    return f"{angle:.2f} ({vertex_distance(pos, pair.clean_pos, pair.face):.3f})"


def torus(around: int, along: int) -> Data:
    """A closed mesh of ``around * along`` vertices and twice as many faces."""
    u = torch.arange(around).repeat_interleave(along)
    v = torch.arange(along).repeat(around)
    a, b = u * (2 * torch.pi / around), v * (2 * torch.pi / along)
    radius = 1 + 0.4 * b.cos()
    pos = torch.stack([radius * a.cos(), radius * a.sin(), 0.4 * b.sin()], 1)

    def vertex(du: int, dv: int) -> torch.Tensor:
        return (u + du) % around * along + (v + dv) % along

    first = torch.stack([vertex(0, 0), vertex(1, 0), vertex(1, 1)])
    second = torch.stack([vertex(0, 0), vertex(1, 1), vertex(0, 1)])
    return Data(pos=pos, face=torch.cat([first, second], 1))


def speed(quick: bool = False) -> None:
    """A torus of 50,000 vertices, two threads: stage by stage, and peers' ten iterations."""
    around, along, repeats = (50, 40, 1) if quick else (250, 200, 3)
    mesh = NormalNoise(0.2, seed=0)(torus(around, along))
    model = MeshDenoiser.from_pretrained()
    with threads(2):
        rows = [[name, ms(value)] for name, value in stages(model, mesh)]
        contenders: dict[str, Callable[[], object]] = {
            "ours, end to end": lambda: model(mesh),
            "Open3D Taubin": dict(open3d_smoothers(mesh, (10,)))["Open3D Taubin .5 -.53 x10"],
            "trimesh Taubin": dict(trimesh_smoothers(mesh, (10,)))["trimesh Taubin .5 .53 x10"],
            "mm": square_product,
        }
        rows += [[name, ms(value)] for name, value in in_turn(contenders, repeats).items()]
    table(f"Denoising of {mesh.num_nodes:,} vertices, two threads", ["", "ms"], rows)


def stages(model: MeshDenoiser, mesh: Data) -> list[tuple[str, float]]:
    """Milliseconds of each part of one call."""
    rows: list[tuple[str, float]] = []

    def timed(name: str, call: Callable[..., Any], *args: Any) -> Any:
        start = time.perf_counter()
        result = call(*args)
        rows.append((name, 1e3 * (time.perf_counter() - start)))
        return result

    model(mesh)
    local = mesh.pos.double() - mesh.pos.double().mean(dim=0)
    pieces = timed("spacing, incidence", Triangles, local, mesh.face)
    pos = (local / pieces.spacing).float()
    surface = timed("smoothed normals, noise", begin, pieces, pos)
    with torch.no_grad():
        for index, stage in enumerate(model.stages):
            found = timed(f"stage {index + 1}, lattices", stage.candidates, surface)
            normal = timed(f"stage {index + 1}, network", stage.mix, found)
            surface = timed(f"stage {index + 1}, vertices", advance, pieces, pos, surface, normal)
        timed("last vertex update", pieces.fit, pos, surface.estimate, pieces.steps)
    return rows
