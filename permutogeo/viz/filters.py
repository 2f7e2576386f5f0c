"""Filters of the lattice as pictures."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from permutogeo import stencils
from permutogeo.data._fields import Array, as_array
from permutogeo.lattice import Lattice
from permutogeo.viz._image import check_path, to_picture, written

# Of a slice, along each side.
PIXELS = 121


def filter_slices(
    filters: Mapping[str, Array | Tensor],
    dim: int,
    radius: int = 2,
    path: str | os.PathLike[str] | None = None,
    *,
    axes: tuple[int, int] = (0, 1),
    along: int | None = None,
    at: Sequence[float] = (-1.0, -0.5, 0.0, 0.5, 1.0),
    names: Sequence[str] | None = None,
    difference: bool = True,
    title: str = "",
) -> Any:
    r"""Draws filters on the stencil of a lattice, such as a learned one next to the Gaussian.

    A filter has a weight at each point of its stencil, and is linear in between, as splatting and
    slicing make it. Shown are 2-D slices through that function of where an input lies, seen from
    the output, in bandwidths; one filter a row, in the same colors.

    Args:
        filters: Names, and the weights :math:`(K)` of each, in the order of
            :func:`permutogeo.stencil`.
        dim: Number of features of a point.
        radius: Size of the stencil.
        path: Where to write (``.png``, ``.jpg``, ``.webp``), whole or not at all. Without it a
            PIL image is returned.
        axes: The two features that a slice shows, to the right and upwards.
        along: The feature in which the slices of a row differ, by default the last one that is not
            in ``axes``; all others are 0.
        at: The values of that feature.
        names: The names of the features.
        difference: Whether a last row has the second filter minus the first, where there are two.
        title: A line above.

    Example:
        >>> from permutogeo import stencils
        >>> from permutogeo.viz import filter_slices
        >>> gaussian = stencils.gaussian(3, 2)
        >>> filter_slices({"Gaussian": gaussian, "sharper": gaussian**2}, dim=3).size[0] > 500
        True
    """
    check_path(path)
    taps = {name: _check_taps(name, filter, dim, radius) for name, filter in filters.items()}
    if not taps:
        raise ValueError("filter_slices: Expected at least one filter (got none)")
    along, at = _check_axes(dim, axes, along, at)
    lattice, reach = _lay(dim, radius)
    ticks = torch.linspace(-reach, reach, PIXELS, dtype=torch.float64)
    rows = {
        name: [_slice(lattice, weight, ticks, dim, axes, along, place) for place in at]
        for name, weight in taps.items()
    }
    if difference and len(taps) == 2:
        (first, low), (second, high) = rows.items()
        rows[f"{second}\n− {first}"] = [b - a for a, b in zip(low, high, strict=True)]
    named = list(names) if names is not None else [f"feature {i}" for i in range(dim)]
    heads = [""] if along is None else [f"{named[along]} = {place:g}" for place in at]
    picture = _draw(rows, len(taps), heads, [named[i] for i in axes], reach, title)
    return written(picture, path)


def _check_taps(name: str, filter: Array | Tensor, dim: int, radius: int) -> Tensor:
    array = as_array(filter, "filter_slices", name).astype(np.float64)
    expected = stencils.num_taps(dim, radius)
    if array.shape != (expected,):
        raise ValueError(
            f"filter_slices: Expected '{name}' of shape [{expected}], the taps of radius {radius} "
            f"in {dim} dimensions (got {list(array.shape)})"
        )
    return torch.from_numpy(array)


def _check_axes(
    dim: int, axes: tuple[int, int], along: int | None, at: Sequence[float]
) -> tuple[int | None, Sequence[float]]:
    others = [i for i in range(dim) if i not in axes]
    if len(axes) != 2 or len(set(axes)) != 2 or not all(0 <= i < dim for i in axes):
        raise ValueError(f"filter_slices: Expected two 'axes' below {dim} (got {axes})")
    if not others:
        return None, (0.0,)
    along = others[-1] if along is None else along
    if along not in others:
        raise ValueError(f"filter_slices: Expected 'along' in {others} (got {along})")
    return along, at


def _lay(dim: int, radius: int) -> tuple[Lattice, float]:
    """A lattice with the stencil's points, in its order, and how far they reach in a feature."""
    # Elevation is a rotation and a factor: back again by its transpose.
    across = torch.triu(torch.ones(dim + 1, dim, dtype=torch.float64))
    for i in range(dim):
        across[i + 1, i] = -(i + 1.0)
    across /= torch.linalg.vector_norm(across, dim=0)
    feature = stencils.stencil(dim, radius).double() @ across / ((dim + 1) * (2 / 3) ** 0.5)
    return Lattice.build(feature), 1.1 * float(feature.abs().max())


def _slice(
    lattice: Lattice,
    weight: Tensor,
    ticks: Tensor,
    dim: int,
    axes: tuple[int, int],
    along: int | None,
    place: float,
) -> Array:
    """The values of a filter on a plane, the second axis downwards from its lowest value."""
    feature = ticks.new_zeros(len(ticks), len(ticks), dim)
    feature[..., axes[0]] = ticks
    feature[..., axes[1]] = ticks.unsqueeze(1)
    if along is not None:
        feature[..., along] = place
    found = lattice.locate(feature.view(-1, dim))
    values = lattice.slice(lattice.splat(weight.unsqueeze(1)), at=found)
    return values.view(len(ticks), len(ticks)).numpy()


def _draw(
    rows: Mapping[str, list[Array]],
    filters: int,
    heads: list[str],
    axes: list[str],
    reach: float,
    title: str,
) -> Any:
    """The slices, of which those of the filters have the same colors."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    size = (2.4 + 1.6 * len(heads), 0.7 + 1.7 * len(rows))
    figure = Figure(figsize=size, layout="constrained", dpi=120)
    canvas = FigureCanvasAgg(figure)
    grid = figure.subplots(len(rows), len(heads), squeeze=False, sharex=True, sharey=True)
    planes = list(rows.values())
    most = [_largest(planes[:filters])] * filters + [_largest([p]) for p in planes[filters:]]
    for line, (name, row), limit in zip(grid, rows.items(), most, strict=True):
        _draw_row(figure, line, row, limit, reach)
        line[0].set_ylabel(f"{name}\n{axes[1]}", fontsize=9)
    for top, bottom, head in zip(grid[0], grid[-1], heads, strict=True):
        top.set_title(head, fontsize=9)
        bottom.set_xlabel(axes[0], fontsize=9)
    figure.suptitle(title, fontsize=11)
    canvas.draw()
    return to_picture(np.asarray(canvas.buffer_rgba())[..., :3] / 255.0)


def _draw_row(figure: Any, cells: Array, planes: list[Array], limit: float, reach: float) -> None:
    extent = (-reach, reach, -reach, reach)
    options = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit, "origin": "lower"}
    for cell, plane in zip(cells, planes, strict=True):
        shown = cell.imshow(plane, extent=extent, **options)
        cell.tick_params(labelsize=7)
    figure.colorbar(shown, ax=cells, pad=0.01, aspect=12).ax.tick_params(labelsize=7)


def _largest(rows: list[list[Array]]) -> float:
    """The largest size of a value, or 1 where all are 0."""
    return max(float(np.abs(plane).max()) for row in rows for plane in row) or 1.0
