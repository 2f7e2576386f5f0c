"""Range checks of the features, and the derivative of the barycentric weights in them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import torch

from permutogeo.kernels import embed as kernels
from permutogeo.kernels import simplex
from permutogeo.ops._library import define, ops
from permutogeo.runtime import bridge, memory, threads

# Points whose range is found at once, and points in a row of the search.
_CHUNK, _WIDE = 32768, 128
_KEY_LIMIT = 2**31 - 1


@cache
def elevation_arguments(dim: int, tap_variance: float, real: type) -> tuple[Any, Any]:
    """Return the arguments ``scale`` and ``subdiagonal`` of the kernels that embed points."""
    scale, subdiagonal = simplex.elevation(dim, tap_variance)
    return real(*scale), real(*subdiagonal)


def grid_bounds(
    feature: torch.Tensor, bounds: Sequence[np.ndarray], tap_variance: float, name: str
) -> tuple[list[int], list[int]]:
    """Check the features, and return integer bounds of the grid coordinates of all corners.

    The bounds follow from the range of each feature by interval arithmetic.
    """
    dim = feature.shape[1]
    low, high = bounds
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        _refuse_not_finite(feature, name)
    matrix = simplex.elevation_matrix(dim, tap_variance)
    with np.errstate(over="ignore", invalid="ignore"):
        least = np.minimum(matrix * low, matrix * high).sum(1)
        most = np.maximum(matrix * low, matrix * high).sum(1)
    if not max(np.abs(least).max(), np.abs(most).max()) * (dim + 1) ** 2 < _KEY_LIMIT:
        _refuse_too_large(feature, matrix, name)
    # One cell of margin for rounding; the highest corner is one above the floor.
    return (np.floor(least) - 1).astype(np.int64).tolist(), (np.floor(most) + 2).astype(
        np.int64
    ).tolist()


def feature_range(
    feature: torch.Tensor, batch: torch.Tensor | None
) -> tuple[np.ndarray, np.ndarray, tuple[int, int] | None]:
    """Return the minimum and maximum of each feature, NaN where one is NaN, and those of the graph
    ids."""
    if feature.device.type == "cpu":
        low, high = _range_on_threads(feature)
        if batch is None:
            return low, high, None
        least, most = batch.aminmax()
        return low, high, (int(least), int(most))
    # One transfer, since each synchronizes: the bits of the features' range, then the ids.
    parts = [bound.double().view(torch.int64) for bound in feature.aminmax(dim=0)]
    if batch is not None:
        parts += [bound.reshape(1) for bound in batch.aminmax()]
    numbers = torch.cat(parts).cpu().numpy()
    dim = feature.shape[1]
    low, high = numbers[: 2 * dim].view(np.float64).reshape(2, dim)
    return low, high, None if batch is None else (int(numbers[-2]), int(numbers[-1]))


def _range_on_threads(feature: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    points = feature.detach().numpy()
    if len(points) <= _CHUNK:
        low, high = _range_of(points)
        return low.astype(np.float64), high.astype(np.float64)
    found: list[tuple[np.ndarray, np.ndarray]] = []

    def search(first: int, last: int) -> None:
        for begin in range(first, last, _CHUNK):
            found.append(_range_of(points[begin : min(begin + _CHUNK, last)]))

    jobs = [partial(search, *part) for part in threads.split_range(len(points), _CHUNK)]
    threads.run_jobs(jobs)
    low, high = zip(*found, strict=True)
    return np.min(low, axis=0).astype(np.float64), np.max(high, axis=0).astype(np.float64)


def _range_of(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the minimum and maximum of each column; NaN propagates."""
    count, dim = points.shape
    rows = count // _WIDE
    if rows < 2:
        return points.min(0), points.max(0)
    # Long rows are compared by SIMD.
    wide = points[: rows * _WIDE].reshape(rows, _WIDE * dim)
    rest = points[rows * _WIDE :]
    low = np.concatenate([wide.min(0).reshape(_WIDE, dim), rest])
    high = np.concatenate([wide.max(0).reshape(_WIDE, dim), rest])
    return low.min(0), high.max(0)


def _refuse_not_finite(feature: torch.Tensor, name: str) -> None:
    row, column = (~torch.isfinite(feature)).nonzero()[0].tolist()
    raise ValueError(
        f"Expected finite '{name}' (got {feature[row, column].item()} in row {row}, "
        f"column {column})"
    )


def _refuse_too_large(feature: torch.Tensor, matrix: np.ndarray, name: str) -> None:
    """Raise if the keys of a row do not fit 32 bits, which the bounds alone cannot decide."""
    dim = feature.shape[1]
    grid = feature.double() @ torch.as_tensor(matrix.T.copy(), device=feature.device)
    # key_j = D c_j - sum(c), and the last is -sum(c).
    total = grid.sum(1, keepdim=True)
    largest = torch.cat([(dim + 1) * grid - total, total], dim=1).abs().amax(1) + dim + 1
    beyond = (~(largest <= _KEY_LIMIT)).nonzero()  # NaN where the sum overflows
    if len(beyond):
        row = int(beyond[0])
        raise ValueError(
            f"Expected '{name}' whose lattice keys fit 32 bits (got {feature[row].tolist()} in "
            f"row {row}, which needs {largest[row].nan_to_num(torch.inf).item():.3g}); divide the "
            f"features by a larger bandwidth or subtract an offset"
        )


def _derivative(
    name: str, source: torch.Tensor, feature: torch.Tensor, tap_variance: float, width: int
) -> torch.Tensor:
    """Launch the kernel ``tangent`` or ``adjoint`` at ``feature``."""
    out = memory.empty(len(feature), width, dtype=feature.dtype, device=feature.device)
    source, feature = source.detach().contiguous(), feature.detach().contiguous()
    run = bridge.load_kernels(kernels.make, feature.shape[1], feature.dtype, device=feature.device)
    bridge.launch(
        getattr(run, name),
        len(feature),
        feature,
        source,
        *elevation_arguments(feature.shape[1], tap_variance, run.Real),
        out,
        device=feature.device,
    )
    return out


def _adjoint(grad: torch.Tensor, feature: torch.Tensor, tap_variance: float) -> torch.Tensor:
    return _derivative("adjoint", grad, feature, tap_variance, feature.shape[1])


def _tangent(direction: torch.Tensor, feature: torch.Tensor, tap_variance: float) -> torch.Tensor:
    return _derivative("tangent", direction, feature, tap_variance, feature.shape[1] + 1)


def _save(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    _, feature, ctx.tap_variance = inputs
    ctx.save_for_backward(feature)


# The weights are piecewise linear in the features, so the second derivative in them is zero.
embed_adjoint = define(
    "embed_adjoint(Tensor grad, Tensor feature, float tap_variance) -> Tensor",
    _adjoint,
    lambda grad, feature, tap_variance: torch.empty_like(
        feature, memory_format=torch.contiguous_format
    ),
    save=_save,
    backward=lambda ctx, g: (
        ops.embed_tangent(g, *ctx.saved_tensors, ctx.tap_variance),
        None,
        None,
    ),
    linear=[0],
)

embed_tangent = define(
    "embed_tangent(Tensor direction, Tensor feature, float tap_variance) -> Tensor",
    _tangent,
    lambda direction, feature, tap_variance: feature.new_empty(
        feature.shape[0], feature.shape[1] + 1
    ),
    save=_save,
    backward=lambda ctx, g: (
        ops.embed_adjoint(g, *ctx.saved_tensors, ctx.tap_variance),
        None,
        None,
    ),
    linear=[0],
)
