"""Slices through lattice filters as a picture."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from permutogeo.data.fields import as_array
from permutogeo.data.pixels import to_pil
from permutogeo.lattice import Lattice
from permutogeo.ops import stencils
from permutogeo.typing import Array
from permutogeo.viz.drawing import check_picture_path, save_picture

# Resolution of a slice along each side.
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
    r"""Draws lattice filters, such as a learned one next to the Gaussian, as 2-D slices.

    A filter has one weight per tap of its stencil, and splatting and slicing interpolate linearly
    in between. Each slice shows the filter response to an input at that offset from the output, in
    bandwidths. Each row is one filter; all filters share a color scale.

    Args:
        filters: Names and filter weights :math:`(K)`, in the order of
            :func:`permutogeo.stencil`.
        dim: Number of feature dimensions.
        radius: Radius of the stencil.
        path: Output file (``.png``, ``.jpg``, ``.webp``), written atomically. By default a PIL
            image is returned.
        axes: The horizontal and the vertical feature of a slice.
        along: The feature that differs between the slices of a row, by default the last one that
            is not in ``axes``; all others are 0.
        at: Values of that feature.
        names: Names of the features.
        difference: Whether two filters are followed by a row with their difference, second minus
            first.
        title: Title above the slices.

    Example:
        >>> from permutogeo.ops import stencils
        >>> from permutogeo.viz import filter_slices
        >>> gaussian = stencils.gaussian(3, 2)
        >>> filter_slices({"Gaussian": gaussian, "sharper": gaussian**2}, dim=3).size[0] > 500
        True
    """
    check_picture_path(path)
    taps = {name: _check_taps(name, filter, dim, radius) for name, filter in filters.items()}
    if not taps:
        raise ValueError("filter_slices: Expected at least one filter (got none)")
    along, at = _check_axes(dim, axes, along, at)
    lattice, reach = _stencil_lattice(dim, radius)
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
    return save_picture(picture, path)


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


def _stencil_lattice(dim: int, radius: int) -> tuple[Lattice, float]:
    """Return a lattice with one point per tap, in order, and the half width of the slices."""
    # Elevation is a rotation and a scaling; its transpose inverts it.
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
    """Return the filter on a plane, ``[PIXELS, PIXELS]``, rows along the second axis."""
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
    num_filters: int,
    heads: list[str],
    axes: list[str],
    reach: float,
    title: str,
) -> Any:
    """Draw all rows; the filters share a color scale, the difference has its own."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    size = (2.4 + 1.6 * len(heads), 0.7 + 1.7 * len(rows))
    figure = Figure(figsize=size, layout="constrained", dpi=120)
    canvas = FigureCanvasAgg(figure)
    grid = figure.subplots(len(rows), len(heads), squeeze=False, sharex=True, sharey=True)
    planes = list(rows.values())
    most = [_largest(planes[:num_filters])] * num_filters
    most += [_largest([plane]) for plane in planes[num_filters:]]
    for line, (name, row), limit in zip(grid, rows.items(), most, strict=True):
        _draw_row(figure, line, row, limit, reach)
        line[0].set_ylabel(f"{name}\n{axes[1]}", fontsize=9)
    for top, bottom, head in zip(grid[0], grid[-1], heads, strict=True):
        top.set_title(head, fontsize=9)
        bottom.set_xlabel(axes[0], fontsize=9)
    figure.suptitle(title, fontsize=11)
    canvas.draw()
    return to_pil(np.asarray(canvas.buffer_rgba())[..., :3] / 255.0)


def _draw_row(figure: Any, cells: Array, planes: list[Array], limit: float, reach: float) -> None:
    extent = (-reach, reach, -reach, reach)
    options = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit, "origin": "lower"}
    for cell, plane in zip(cells, planes, strict=True):
        shown = cell.imshow(plane, extent=extent, **options)
        cell.tick_params(labelsize=7)
    figure.colorbar(shown, ax=cells, pad=0.01, aspect=12).ax.tick_params(labelsize=7)


def _largest(rows: list[list[Array]]) -> float:
    """Return the largest absolute value, or 1 if all are 0."""
    return max(float(np.abs(plane).max()) for row in rows for plane in row) or 1.0
