"""Operator benchmarks over sizes, dimensions, channels and threads."""

from __future__ import annotations

from collections.abc import Callable

import torch

import permutogeo as pg
from permutogeo.benchmarks.timing import in_turn, ms, table, threads

# Cases that need more memory are skipped.
_MAX_BYTES = 4 * 2**30
_CHANNELS = (1, 4, 16, 64)


def operators(quick: bool = False) -> None:
    """Time build, splat, blur, slice and convolve over uniform points in [0, 10)^d."""
    for dim in (2,) if quick else (2, 3, 5, 8):
        rows = []
        for count in (10**3,) if quick else (10**4, 10**5, 10**6, 10**7):
            rows += _rows(dim, count, quick)
        columns = ["points", "vertices", "C", "build", "splat", "blur", "slice"]
        columns += ["convolve", "convolve + backward"]
        table(f"Operators, d = {dim}: ms with 1 / 2 threads", columns, rows)


def _rows(dim: int, count: int, quick: bool) -> list[list[str]]:
    feature = torch.rand(count, dim, generator=torch.Generator().manual_seed(0)) * 10
    repeats = 1 if quick else max(1, min(7, 10**7 // count))
    build = _cell(lambda: pg.Lattice.build(feature), repeats)
    lattice = pg.Lattice.build(feature)
    rows = []
    for channels in (1, 4) if quick else _CHANNELS:
        cells = _channel_cells(lattice, count, channels, repeats)
        head = [f"{count:.0e}", f"{lattice.num_vertices:,}", str(channels)]
        rows.append([*head, build if channels == 1 else "", *cells])
    return rows


def _channel_cells(lattice: pg.Lattice, count: int, channels: int, repeats: int) -> list[str]:
    vertices, dim = lattice.num_vertices, lattice.dim
    row = 4 * channels
    taps = 2 ** (dim + 1) - 1
    too_large = "—"
    x = values = None
    cells = []
    if row * (count + vertices) < _MAX_BYTES:
        x = torch.rand(count, channels)
        values = lattice.splat(x)
    axis_bytes = 4 * (2 * dim + 3) * vertices + 3 * row * vertices
    cells.append(too_large if x is None else _cell(lambda: lattice.splat(x), repeats))
    blurs = values is not None and axis_bytes < _MAX_BYTES
    cells.append(_cell(lambda: lattice.blur(values), repeats) if blurs else too_large)
    cells.append(too_large if values is None else _cell(lambda: lattice.slice(values), repeats))
    # A full stencil is not practical above 5-D or a million points.
    if values is None or dim > 5 or count > 10**6 or 4 * taps * vertices > _MAX_BYTES:
        return [*cells, too_large, too_large]
    leaf = values.detach().requires_grad_()
    filter = (torch.rand(taps, channels, channels) / taps).requires_grad_()

    def forward() -> torch.Tensor:
        with torch.no_grad():
            return lattice.convolve(leaf, filter)

    def both() -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(lattice.convolve(leaf, filter).sum(), (leaf, filter))

    return [*cells, _cell(forward, repeats), _cell(both, repeats)]


def _cell(call: Callable[[], object], repeats: int) -> str:
    time = {}
    for count in (1, 2):
        with threads(count):
            time |= in_turn({str(count): call}, repeats)
    return f"{ms(time['1'])} / {ms(time['2'])}"
