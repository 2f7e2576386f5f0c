"""Suggestion of a scale: the factor on features for a wanted number of points per vertex."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from permutogeo.checks import check_points
from permutogeo.lattice.lattice import Lattice

# A sample of this size gives the number of points per vertex within some ten percent.
_POINTS = 32768
_SAMPLES = 8
_STEPS = 14
# Cells along the extent of a sample: points nearer to each other than this are taken for equal.
_MOST_CELLS = 2.0**26


def suggest_scale(
    data: Any, points_per_vertex: float = 3.0, *, fixed: Tensor | None = None
) -> float:
    """Return the factor on features for which a lattice has ``points_per_vertex``.

    The scale decides what a lattice network sees: with far fewer than one point per vertex no two
    points interact, with very many all of them are averaged. Two to six points per vertex of the
    finest lattice are a good start. Coarser lattices are cheaper: where training time is short, try
    more points per vertex (``examples/choose_scale.py`` compares several).

    Args:
        data: Features ``[N, d]``; or PyG data with ``feature`` or ``pos``; or a batch, dataset or
            list of such data, of which a sample is used.
        points_per_vertex: Number of points divided by the number of vertices.
        fixed: Further features ``[N, d']`` of the same points, which are not scaled.

    Returns:
        The factor: multiply the features by it, or divide their bandwidths by it.

    Example:

        >>> import torch
        >>> from permutogeo import Lattice
        >>> _ = torch.manual_seed(0)
        >>> feature = torch.rand(5000, 3)
        >>> scale = suggest_scale(feature)
        >>> lattice = Lattice.build(feature * scale)
        >>> round(lattice.num_points / lattice.num_vertices)
        3
    """
    if not 0 < points_per_vertex < math.inf:
        raise ValueError(f"Expected a positive 'points_per_vertex' (got {points_per_vertex})")
    samples = _samples(data, fixed)
    corners = 1 + sum(part.shape[1] for part in samples[0] if part is not None)
    if points_per_vertex * corners <= 1:
        raise ValueError(
            f"Expected 'points_per_vertex' above 1 / {corners}, where each point has its own "
            f"{corners} vertices (got {points_per_vertex:g})"
        )
    samples = [_cropped(*pair, _POINTS // len(samples)) for pair in samples]
    dims = sorted({sample.shape[1] for sample, _ in samples})
    if len(dims) > 1:
        raise ValueError(f"Expected features of one dimension in all samples (got {dims})")
    feature = torch.cat([sample for sample, _ in samples])
    rest = [sample for _, sample in samples if sample is not None]
    others = torch.cat(rest) if rest else feature.new_zeros(len(feature), 0)
    sizes = torch.tensor([len(sample) for sample, _ in samples])
    batch = torch.arange(len(samples)).repeat_interleave(sizes)
    extent = float((feature.amax(0) - feature.amin(0)).max()) if len(feature) else 0.0
    if extent == 0:
        raise ValueError(f"Expected points that differ (got {len(feature)} equal ones)")

    def density(scale: float) -> float:
        both = torch.cat([feature * scale, others], 1)
        return len(both) / Lattice.build(both, batch).num_vertices

    more = "more points" if not rest else "larger bandwidths of the fixed features, or more points,"
    return _bisect(density, 0.5 / extent, points_per_vertex, more)


def _bisect(density: Callable[[float], float], start: float, target: float, more: str) -> float:
    """Return the scale at which a decreasing density meets the target.

    Args:
        start: A scale at which a sample spans about one cell.
        more: What is missing where no scale meets the target.
    """
    low = high = start
    if density(low) < target:
        # Even one cell for a whole sample has fewer points per vertex.
        for _ in range(_STEPS):
            low /= 2
            if density(low) >= target:
                break
        else:
            raise ValueError(
                f"Expected {more} for {target:g} points per vertex "
                f"(got at most {density(low):.2g}, at scale {low:.2g})"
            )
        high = 2 * low
    else:
        while density(high) > target:
            low, high = high, 4 * high
            if high > start * _MOST_CELLS:
                raise ValueError(f"Expected points that differ for {target:g} points per vertex")
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if density(middle) > target else (low, middle)
    return math.sqrt(low * high)


def _samples(data: Any, fixed: Tensor | None) -> list[tuple[Tensor, Tensor | None]]:
    """Return features, each with its fixed features, of a few graphs of a batch or dataset."""
    # A dataset in memory has an attribute with the features of all its items, too.
    dataset = isinstance(data, torch.utils.data.Dataset)
    if not dataset:
        feature = data if isinstance(data, Tensor) else getattr(data, "feature", None)
        feature = getattr(data, "pos", None) if feature is None else feature
        if isinstance(feature, Tensor):
            return _graphs(*_checked(feature, fixed), getattr(data, "batch", None))
    if fixed is not None:
        raise ValueError("Expected 'data' of one sample with 'fixed' (got a dataset)")
    dataset = dataset or (hasattr(data, "__getitem__") and not hasattr(data, "num_nodes"))
    if not dataset or isinstance(data, str):
        raise TypeError(
            "Expected 'data' to be features [N, d], data with 'feature' or 'pos', or a dataset "
            f"(got {type(data).__name__} without them)"
        )
    if len(data) == 0:
        raise ValueError("Expected a dataset that is not empty")
    return [sample for i in _spread(len(data)) for sample in _samples(data[i], None)]


def _graphs(
    feature: Tensor, fixed: Tensor | None, batch: Any
) -> list[tuple[Tensor, Tensor | None]]:
    """Return the features of a few graphs of a batch."""
    if not isinstance(batch, Tensor) or len(batch) == 0:
        return [(feature, fixed)]
    batch = batch.cpu()
    graphs = batch.unique()
    chosen = (batch == graphs[i] for i in _spread(len(graphs)))
    return [(feature[rows], None if fixed is None else fixed[rows]) for rows in chosen]


def _spread(count: int) -> list[int]:
    """Return a few of ``count`` indices, evenly spaced."""
    return sorted({i * count // _SAMPLES for i in range(_SAMPLES)} if count else [])


def _checked(feature: Tensor, fixed: Tensor | None) -> tuple[Tensor, Tensor | None]:
    feature = check_points("feature", feature, "batch", None).detach().cpu()
    if fixed is None:
        return feature, None
    fixed = check_points("fixed", fixed, "batch", None).detach().cpu()
    if len(fixed) != len(feature):
        raise ValueError(
            f"Expected 'fixed' with a row for each of the {len(feature)} points (got {len(fixed)})"
        )
    return feature, fixed.to(feature.dtype)


def _cropped(feature: Tensor, fixed: Tensor | None, count: int) -> tuple[Tensor, Tensor | None]:
    """Return the points around one of them: thinning a sample would change its density."""
    if len(feature) <= count:
        return feature, fixed
    center = feature[len(feature) // 2]
    near = (feature - center).square().sum(1).topk(count, largest=False).indices
    return feature[near], None if fixed is None else fixed[near]
