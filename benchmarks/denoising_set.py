"""Mesh denoising on a folder of clean and noisy meshes: table, page and pictures."""

from __future__ import annotations

import html
import importlib.util
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data

from permutogeo.benchmarks.smoothers import default_smoothers
from permutogeo.benchmarks.timing import console, table
from permutogeo.data import from_mesh, to_mesh
from permutogeo.data.mesh import READERS
from permutogeo.denoising import MeshDenoiser, denoise, normal_angle, vertex_distance
from permutogeo.viz import mesh_picture

# Folders of clean meshes beside the folder "noisy".
CLEAN = ("clean", "original", "ground_truth")
Method = Callable[[Data], torch.Tensor]
# Title, heads and rows.
Table = tuple[str, list[str], list[list[str]]]
# The program of meshsdfilter-tools, and options that it has as defaults: it wants a file of them.
SD_PROGRAM = "MeshDenoiser"
SD_OPTIONS = "MeshUpdateClosenessWeight 0.001\nMeshUpdateIterations 20\n"


def run_set(folder: Path, output: Path, quick: bool = False) -> dict[str, dict[str, list[float]]]:
    """Denoise all noisy meshes of a folder by all methods that can be had.

    Writes ``results.json``, ``index.html`` and a picture per pair to ``output``, and prints means,
    medians and worst cases, of all pairs and of each kind of noise.

    Args:
        folder: Holds a folder ``noisy`` and one of ``clean``, ``original`` or ``ground_truth``. A
            noisy file belongs to the clean one whose name its own starts with, as ``block_n2.obj``
            to ``block.obj``; the rest of its name, here ``n2``, is the kind of its noise.
        output: Folder to write to.
        quick: Only the first two pairs and methods.

    Returns:
        For each pair and method the mean normal angle in degrees, the mean vertex distance in mean
        edges and the seconds.
    """
    pairs = find_pairs(folder)[: 2 if quick else None]
    output.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, list[float]]] = {}
    kinds: dict[str, list[str]] = {}
    for clean_path, noisy_path in pairs:
        name = noisy_path.stem
        kinds.setdefault(name[len(clean_path.stem) :].strip("_-. ") or "noisy", []).append(name)
        clean, noisy = from_mesh(clean_path), from_mesh(noisy_path)
        if clean["pos"].shape != noisy["pos"].shape:
            raise ValueError(f"'{noisy_path}': Expected the vertices of '{clean_path}'")
        found[name], ours = _measure(clean, noisy, quick)
        views = {"noisy": noisy, "ours": ours, "clean": clean}
        mesh_picture(output / f"{name}.png", views, title=name, error="clean", size=360)
        console.print(f"{name}: {found[name]['noisy'][0]:.2f} to {found[name]['ours'][0]:.2f}")
    (output / "results.json").write_text(json.dumps(found, indent=2))
    tables = [(f"Mean normal angle in degrees over {len(found)} meshes", HEADS, summary(found))]
    if len(kinds) > 1:
        tables.append(by_kind(found, dict(sorted(kinds.items()))))
    for each in tables:
        table(*each)
    (output / "index.html").write_text(_page(folder.name, tables, found))
    console.print(f"{output / 'index.html'}: page")
    return found


HEADS = ["", "mean", "median", "worst", "worse than noisy", "distance / edge", "seconds"]


def summary(found: dict[str, dict[str, list[float]]]) -> list[list[str]]:
    """Return a row of text per method: angles, cases that got worse, distance, seconds."""
    rows = []
    for method in dict.fromkeys(name for each in found.values() for name in each):
        cells = [(each[method], each["noisy"]) for each in found.values() if method in each]
        angles = [cell[0] for cell, _ in cells]
        worse = sum(cell[0] > noisy[0] + 0.02 for cell, noisy in cells)
        rows.append(
            [
                method if len(cells) == len(found) else f"{method} ({len(cells)} meshes)",
                *(f"{f(angles):.2f}" for f in (statistics.mean, statistics.median, max)),
                str(worse),
                f"{statistics.mean(cell[1] for cell, _ in cells):.3f}",
                f"{statistics.mean(cell[2] for cell, _ in cells):.1f}",
            ]
        )
    return rows


def by_kind(found: dict[str, dict[str, list[float]]], kinds: dict[str, list[str]]) -> Table:
    """Return the table of each method's angles for each kind of noise.

    Args:
        found: The errors, see :func:`run_set`.
        kinds: The names of the pairs of each kind.
    """
    parts = [summary({name: found[name] for name in names}) for names in kinds.values()]
    angles = [{row[0]: " / ".join(row[1:4]) for row in part} for part in parts]
    methods = dict.fromkeys(method for part in angles for method in part)
    heads = ["mean / median / worst", *(f"{kind} ({len(names)})" for kind, names in kinds.items())]
    rows = [[method, *(part.get(method, "") for part in angles)] for method in methods]
    return "Normal angle in degrees by kind of noise", heads, rows


def find_pairs(folder: Path) -> list[tuple[Path, Path]]:
    """Return the clean and the noisy file of each pair, sorted by the noisy one's name."""
    cleans = [folder / name for name in CLEAN if (folder / name).is_dir()]
    if not cleans or not (folder / "noisy").is_dir():
        expected = f"folders 'noisy' and one of {', '.join(CLEAN)}"
        raise ValueError(f"Expected {expected} in '{folder}'")
    clean_of = {path.stem: path for path in _meshes(cleans[0])}
    pairs = []
    for path in _meshes(folder / "noisy"):
        stems = [stem for stem in clean_of if path.stem.startswith(stem)]
        if stems:
            pairs.append((clean_of[max(stems, key=len)], path))
    if not pairs:
        raise ValueError(f"Expected noisy meshes named after clean ones in '{folder}' (got none)")
    return pairs


def methods(quick: bool = False) -> Iterator[tuple[str, Method]]:
    """Yield our methods and those of other packages that are installed."""
    model = MeshDenoiser.from_pretrained()
    yield "ours", lambda data: model(data)["pos"]
    if quick:
        return
    yield "ours, smooth", lambda data: denoise(data, "smooth")["pos"]
    yield "ours, gaussian", lambda data: denoise(data, "gaussian")["pos"]
    if importlib.util.find_spec("meshlib") is not None:
        yield "meshlib", _meshlib
    if shutil.which(SD_PROGRAM) is not None:
        yield "meshsdfilter-tools", _sd_filter


def _measure(clean: Data, noisy: Data, quick: bool) -> tuple[dict[str, list[float]], Data]:
    """Return the errors of all methods, and the mesh that ours gives."""

    def errors(pos: torch.Tensor, seconds: float) -> list[float]:
        target, face = clean["pos"], noisy["face"]
        angle, distance = normal_angle(pos, target, face), vertex_distance(pos, target, face)
        return [float(angle), float(distance), seconds]

    found = {"noisy": errors(noisy["pos"], 0.0)}
    ours = noisy
    for name, method in methods(quick):
        start = time.perf_counter()
        pos = method(noisy)
        found[name] = errors(pos, time.perf_counter() - start)
        if name == "ours":
            ours = Data(pos=pos, face=noisy["face"])
    for name, smooth in () if quick else default_smoothers(noisy):
        start = time.perf_counter()
        found[name] = errors(smooth(), time.perf_counter() - start)
    return found, ours


def _meshlib(data: Data) -> torch.Tensor:
    """Denoise by meshlib at its defaults (Mumford-Shah, Tong and Tai 2016)."""
    from meshlib import mrmeshnumpy, mrmeshpy

    mesh = mrmeshnumpy.meshFromFacesVerts(
        data["face"].t().int().numpy(), data["pos"].float().numpy()
    )
    mrmeshpy.meshDenoiseViaNormals(mesh)
    return torch.from_numpy(np.array(mrmeshnumpy.getNumpyVerts(mesh)))


def _sd_filter(data: Data) -> torch.Tensor:
    """Denoise by "Static/Dynamic Filtering for Mesh Geometry" (Zhang et al. 2018), as packaged."""
    with tempfile.TemporaryDirectory() as folder:
        options, source, target = (Path(folder) / name for name in ("o.txt", "in.obj", "out.obj"))
        options.write_text(SD_OPTIONS)
        to_mesh(Data(pos=data["pos"], face=data["face"]), source)
        command = [SD_PROGRAM, str(options), str(source), str(target)]
        subprocess.run(command, check=True, capture_output=True)
        return from_mesh(target)["pos"]


def _meshes(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in READERS)


def _page(title: str, tables: list[Table], found: dict[str, dict[str, list[float]]]) -> str:
    """Return a self-contained page but for the pictures beside it."""
    names = list(dict.fromkeys(name for each in found.values() for name in each))
    body = [_html_table(heads, rows) for _, heads, rows in tables]
    cells = [
        [pair, *(f"{each[name][0]:.2f}" if name in each else "" for name in names)]
        for pair, each in found.items()
    ]
    body.append(_html_table(["", *names], cells))
    for pair in found:
        body.append(f'<h2>{html.escape(pair)}</h2><img src="{html.escape(pair)}.png" alt="">')
    style = (
        ":root{color-scheme:light dark}body{font:15px/1.5 system-ui;margin:2em auto;max-width:75em;"
        "padding:0 1em}table{border-collapse:collapse;margin:1em 0;display:block;overflow:auto}"
        "td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid #8884}"
        "td:first-child{text-align:left}img{max-width:100%}"
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
        f'content="width=device-width"><title>{html.escape(title)}</title><style>{style}</style>'
        f"<h1>Mesh denoising: {html.escape(title)}</h1><p>Mean angle between face normals of the "
        f"result and of the clean mesh in degrees.</p>{''.join(body)}</html>\n"
    )


def _html_table(heads: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in heads)
    lines = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
