"""Features in: their bounds and checks, and the derivative of the weights in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from permutogeo import _warp
from permutogeo.kernels import embed as kernels
from permutogeo.kernels import simplex
from permutogeo.ops._library import define

ops = torch.ops.permutogeo

_CHUNK = 16384
_KEY_LIMIT = 2**31 - 1


def elevation(dim: int, tap_variance: float, real: type) -> tuple[Any, Any]:
    """The arguments ``scale`` and ``fall`` of the kernels that elevate."""
    scale, fall = simplex.elevation(dim, tap_variance)
    return real(*scale), real(*fall)


def grid_bounds(
    feature: torch.Tensor, tap_variance: float, name: str
) -> tuple[list[int], list[int]]:
    """Integer bounds of the grid coordinates of all corners, after checking the features.

    They come from the range of each feature by interval arithmetic: one pass over the input.
    """
    dim = feature.shape[1]
    low, high = _range(feature)
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


def _range(feature: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest value of each feature; NaN where one is not finite."""
    if feature.device.type != "cpu":
        low, high = (bound.double().cpu().numpy() for bound in feature.aminmax(dim=0))
        return low, high
    count, dim = feature.shape
    chunks = -(-count // _CHUNK)
    low, high, poison = feature.new_empty(3, chunks, dim)
    run = _warp.kernels(kernels.make, dim, feature.dtype, device=feature.device)
    outputs = (_warp.array(bound, 1) for bound in (low, high, poison))
    _warp.launch(
        run.bounds,
        chunks,
        _CHUNK,
        _warp.array(feature, 1),
        *outputs,
        device=feature.device,
        grain=2,
    )
    bad = poison.sum(0)
    return (low.amin(0) + bad).double().numpy(), (high.amax(0) + bad).double().numpy()


def _refuse_not_finite(feature: torch.Tensor, name: str) -> None:
    row, column = (~torch.isfinite(feature)).nonzero()[0].tolist()
    raise ValueError(
        f"Expected finite '{name}' (got {feature[row, column].item()} in row {row}, "
        f"column {column})"
    )


def _refuse_too_large(feature: torch.Tensor, matrix: np.ndarray, name: str) -> None:
    """Raise if a row's keys do not fit 32 bits. The bounds of the cloud alone cannot tell."""
    dim = feature.shape[1]
    grid = feature.double() @ torch.as_tensor(matrix.T.copy(), device=feature.device)
    # key_j = D c_j - sum(c), and the last is -sum(c).
    total = grid.sum(1, keepdim=True)
    largest = torch.cat([(dim + 1) * grid - total, total], dim=1).abs().amax(1) + dim + 1
    beyond = (largest > _KEY_LIMIT).nonzero()
    if len(beyond):
        row = int(beyond[0])
        raise ValueError(
            f"Expected '{name}' whose lattice keys fit 32 bits (got {feature[row].tolist()} in "
            f"row {row}, which needs {largest[row].item():.3g}); divide the features by a larger "
            f"bandwidth or subtract an offset"
        )


def _derivative(
    name: str, source: torch.Tensor, feature: torch.Tensor, tap_variance: float, width: int
) -> torch.Tensor:
    """Launch ``tangent`` or ``adjoint`` of the weights at ``feature``."""
    out = _warp.empty(len(feature), width, dtype=feature.dtype, device=feature.device)
    source, feature = source.detach().contiguous(), feature.detach().contiguous()
    run = _warp.kernels(kernels.make, feature.shape[1], feature.dtype, device=feature.device)
    _warp.launch(
        getattr(run, name),
        len(feature),
        _warp.array(feature, 1),
        _warp.array(source, 1),
        *elevation(feature.shape[1], tap_variance, run.Real),
        _warp.array(out, 1),
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
)
