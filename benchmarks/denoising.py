"""Mesh denoising benchmark: errors on pairs of clean and noisy meshes, and wall time per stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch_geometric.data import Data

from permutogeo.benchmarks.smoothers import (
    ITERATIONS,
    QUICK_ITERATIONS,
    default_smoothers,
    open3d_smoothers,
    trimesh_smoothers,
)
from permutogeo.benchmarks.timing import console, in_turn, ms, square_product, table, threads
from permutogeo.denoising import MeshDenoiser, normal_angle, vertex_distance
from permutogeo.denoising.cascade import initial_surface, update_surface
from permutogeo.denoising.triangles import TriangleElements
from permutogeo.transforms import NormalNoise

PAIRS = (
    "block 0.4",
    "fandisk 0.3",
    "fandisk 0.7",
    "sharpsphere 0.3",
    "trimstar 0.5",
    "bunny 0.2",
    "julius 0.2",
)
# The setting of each smoother whose vertex distances are compared.
FIXED = "x10"
OURS = "ours"
Errors = tuple[float, float]


def denoising(quick: bool = False) -> None:
    """Measure errors on the public pairs, then invariance and wall time."""
    show_quality(quality(quick))
    invariance(quick)
    speed(quick)


def quality(quick: bool = False) -> dict[str, dict[str, Errors]]:
    """Return mean normal angle and vertex distance over mean edge, for each pair and method."""
    steps = QUICK_ITERATIONS if quick else ITERATIONS
    model = MeshDenoiser.from_pretrained()
    return {name: compare(model, pair, steps) for name, pair in pairs(quick)}


def compare(model: MeshDenoiser, pair: Data, steps: tuple[int, ...]) -> dict[str, Errors]:
    """Return the errors of the noisy mesh, of the smoothers and of the denoiser."""
    found = {"noisy": errors(pair.pos, pair)}
    for name, smooth in default_smoothers(pair):
        found[f"{name}, default"] = errors(smooth(), pair)
    searches = (open3d_smoothers(pair, steps), trimesh_smoothers(pair, steps))
    for library, search in zip(("Open3D", "trimesh"), searches, strict=True):
        tried = {name: errors(smooth(), pair) for name, smooth in search}
        found |= {name: value for name, value in tried.items() if name.endswith(FIXED)}
        found[f"{library}, best"] = min(tried.values())
    return found | {OURS: errors(model(pair).pos, pair)}


def show_quality(found: dict[str, dict[str, Errors]]) -> None:
    """Print a row per method and a column per pair."""
    methods = list(next(iter(found.values())))
    rows = [[name, *(text(*errors[name]) for errors in found.values())] for name in methods]
    title = "Mean normal angle in degrees, vertex distance / mean edge; best: searched per mesh"
    table(title, ["", *(name.replace(" ", "\n") for name in found)], rows)


def pairs(quick: bool) -> Iterable[tuple[str, Data]]:
    """Return the public pairs, or a noisy torus if their files are missing or the run is quick."""
    try:
        if not quick:
            from permutogeo.datasets import DenoisingPairs

            found = {f"{pair.name} {pair.noise}": pair for pair in DenoisingPairs()}
            return [(name, found[name]) for name in PAIRS]
    except FileNotFoundError as error:
        console.print(f"{error} Using a generated torus instead.")
    mesh = torus(40, 20)
    return [("torus 0.2", NormalNoise(0.2, keep="clean_pos", seed=0)(mesh))]


def errors(pos: torch.Tensor, pair: Data) -> Errors:
    angle = normal_angle(pos, pair.clean_pos, pair.face)
    return float(angle), float(vertex_distance(pos, pair.clean_pos, pair.face))


def text(angle: float, distance: float) -> str:
    return f"{angle:.2f} {distance:.3f}".replace(" 0.", " .")


def invariance(quick: bool = False) -> None:
    """Print how far results differ if the input is rotated, scaled or renumbered."""
    model = MeshDenoiser.from_pretrained()
    rows = []
    for name, pair in list(pairs(quick))[1:6:2] or pairs(quick):
        pos = model(pair).pos
        row = [name]
        for change in (rotated, scaled, renumbered):
            other, back = change(pair)
            found = back(model(other).pos)
            worse = errors(found, pair)[0] - errors(pos, pair)[0]
            row.append(f"{float(normal_angle(found, pos, pair.face)):.3f} ({worse:+.3f})")
        rows.append(row)
    title = "Mean angle between the results in degrees (change of the error), if the input is"
    table(title, ["", "rotated", "1000 times as large", "renumbered"], rows)


Change = tuple[Data, Callable[[torch.Tensor], torch.Tensor]]


def rotated(pair: Data) -> Change:
    """Return a rotated mesh, and what rotates positions back."""
    generator = torch.Generator().manual_seed(0)
    q, r = torch.linalg.qr(torch.randn(3, 3, generator=generator, dtype=torch.float64))
    turn = q * torch.diagonal(r).sign()
    turn = turn * torch.linalg.det(turn)
    turned = (pair.pos.double() @ turn).to(pair.pos.dtype)
    return Data(pos=turned, face=pair.face), lambda pos: pos.double() @ turn.t()


def scaled(pair: Data) -> Change:
    """Return a scaled mesh, and what scales positions back."""
    return Data(pos=1000 * pair.pos, face=pair.face), lambda pos: pos / 1000


def renumbered(pair: Data) -> Change:
    """Return a mesh with vertices and faces in another order, and what restores it."""
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(pair.pos), generator=generator)
    place = order.argsort()
    face = place[pair.face][:, torch.randperm(pair.face.size(1), generator=generator)]
    return Data(pos=pair.pos[order], face=face), lambda pos: pos[place]


def torus(around: int, along: int) -> Data:
    """Return a closed mesh of ``around * along`` vertices and twice as many faces."""
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
    """Time a torus of 50,000 vertices with two threads: each stage, and ten iterations of peers."""
    around, along, repeats = (50, 40, 1) if quick else (250, 200, 3)
    mesh = NormalNoise(0.2, seed=0)(torus(around, along))
    model = MeshDenoiser.from_pretrained()
    with threads(2):
        rows = [[name, ms(value)] for name, value in stages(model, mesh)]
        contenders: dict[str, Callable[[], object]] = {
            "ours, end to end": lambda: model(mesh),
            **dict(open3d_smoothers(mesh, (10,))),
            **dict(trimesh_smoothers(mesh, (10,))),
            "mm": square_product,
        }
        rows += [[name, ms(value)] for name, value in in_turn(contenders, repeats).items()]
    table(f"Denoising of {mesh.num_nodes:,} vertices, two threads", ["", "ms"], rows)


def stages(model: MeshDenoiser, mesh: Data) -> list[tuple[str, float]]:
    """Return the milliseconds of each stage of one call."""
    rows: list[tuple[str, float]] = []

    def timed(name: str, call: Callable[..., Any], *args: Any) -> Any:
        start = time.perf_counter()
        result = call(*args)
        rows.append((name, 1e3 * (time.perf_counter() - start)))
        return result

    model(mesh)
    local = mesh.pos.double() - mesh.pos.double().mean(dim=0)
    elements = timed("spacing, incidence", TriangleElements, local, mesh.face)
    pos = (local / elements.spacing).float()
    surface = timed("smoothed normals, noise", initial_surface, elements, pos)
    with torch.no_grad():
        for index, stage in enumerate(model.stages):
            found = timed(f"stage {index + 1}, lattices", stage.candidates, surface)
            normal = timed(f"stage {index + 1}, network", stage.mix_in_chunks, found)
            update = (update_surface, elements, pos, surface, normal)
            surface = timed(f"stage {index + 1}, vertices", *update)
        timed("last vertex update", elements.fit, pos, surface.estimate, elements.steps)
    return rows
