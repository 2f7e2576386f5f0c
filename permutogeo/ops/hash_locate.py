"""Incidence of points on lattices whose vertices are rows of tables of fixed size."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from permutogeo.kernels import hash_locate as kernels
from permutogeo.kernels import simplex
from permutogeo.ops._library import define
from permutogeo.ops.build import grid_extent
from permutogeo.ops.embed import elevation_arguments, embed_adjoint, embed_tangent, grid_bounds
from permutogeo.runtime import bridge, memory


def vertex_density(dim: int, tap_variance: float) -> float:
    """Return the number of vertices per unit of feature volume."""
    return float(abs(np.linalg.det(simplex.elevation_matrix(dim, tap_variance))))


def vertex_box(corners: torch.Tensor, tap_variance: float) -> tuple[list[int], list[int]]:
    """Return the least grid coordinates and the extents of the vertices around a box of features.

    Args:
        corners: The least and the largest features of the box, ``[2, d]``.
    """
    bounds = list(corners.double().numpy())
    low, high = grid_bounds(corners, bounds, tap_variance, "feature")
    return low, [b - a + 1 for a, b in zip(low, high, strict=True)]


def _hash_locate(
    feature: torch.Tensor,
    level: torch.Tensor,
    low: torch.Tensor,
    extent: torch.Tensor,
    table: torch.Tensor,
    tap_variance: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    feature = feature.detach().contiguous()
    count, dim = feature.shape
    device = feature.device
    weight = memory.empty(count, dim + 1, dtype=feature.dtype, device=device)
    row = memory.empty(count, dim + 1, dtype=torch.int32, device=device)
    if count == 0:
        return weight, row
    grid_extent(feature, None, tap_variance)
    run = bridge.load_kernels(kernels.make, dim, feature.dtype, device=device)
    level, low, extent, table = (each.contiguous() for each in (level, low, extent, table))
    bridge.launch(
        run.locate,
        count,
        *(bridge.array(feature, 1), bridge.array(level, 1)),
        *elevation_arguments(dim, tap_variance, run.Real),
        *(bridge.array(low, 1), bridge.array(extent, 1), bridge.array(table, 2)),
        *(bridge.array(weight, 1), bridge.array(row, 1)),
        device=device,
    )
    return weight, row


def _fake(feature, level, low, extent, table, tap_variance):
    count, dim = feature.shape
    row = torch.empty(count, dim + 1, dtype=torch.int32, device=feature.device)
    return feature.new_empty(count, dim + 1), row


def _save(ctx: Any, inputs: tuple, output: tuple) -> None:
    ctx.tap_variance = inputs[-1]
    ctx.save_for_backward(inputs[0])
    ctx.mark_non_differentiable(output[1])


def _backward(ctx: Any, grad: torch.Tensor, _: Any) -> tuple:
    grad_feature = embed_adjoint(grad, *ctx.saved_tensors, ctx.tap_variance)
    return grad_feature, None, None, None, None, None


def _jvp(inputs: tuple, tangents: tuple) -> tuple:
    return embed_tangent(tangents[0], inputs[0], inputs[-1]), None


hash_locate = define(
    "hash_locate(Tensor feature, Tensor level, Tensor low, Tensor extent, Tensor table,"
    " float tap_variance) -> (Tensor weight, Tensor row)",
    _hash_locate,
    _fake,
    save=_save,
    backward=_backward,
    jvp=_jvp,
)
