"""Incidence of points on lattices whose vertices are rows of tables of fixed size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from permutogeo.kernels import hash_locate as kernels
from permutogeo.kernels import simplex
from permutogeo.ops._library import define
from permutogeo.ops.build import grid_extent
from permutogeo.ops.embed import elevation_arguments, embed_adjoint, embed_tangent
from permutogeo.runtime import bridge, memory


def aligned_frame(dim: int, tap_variance: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a rotation of the feature space that makes the grid coordinates triangular.

    With features ``position @ rotation``, grid coordinate ``j`` depends on positions ``j ..`` only.

    Returns:
        The rotation ``[d, d]`` and the factor ``[d]`` of each position in its grid coordinate. The
        product of the factors is the number of vertices per unit of volume.
    """
    matrix = simplex.elevation_matrix(dim, tap_variance)
    rotation = np.zeros_like(matrix)
    for j in reversed(range(dim)):
        rest = matrix[j] - rotation.T @ (rotation @ matrix[j])
        rotation[j] = rest / np.linalg.norm(rest)
    factor = np.einsum("jk,jk->j", matrix, rotation)
    return torch.from_numpy(rotation), torch.from_numpy(factor)


def dense_widths(scale: float, factor: torch.Tensor) -> list[int]:
    """Return the widths modulo which the vertices around a cube have distinct coordinates.

    Vertices are less than 1 from the points around them in every coordinate and difference of
    coordinates. The coordinates of the basis of the lattice that follow ``j`` project on it with
    weights that are positive and sum to less than 1. So, for fixed coordinates after ``j``,
    coordinate ``j`` lies in an open interval of length ``scale * factor + 2``.

    Args:
        scale: Side of the cube in features, aligned by :func:`aligned_frame`.
    """
    return [math.ceil(scale * float(each) + 2) for each in factor]


def _hash_locate(
    feature: torch.Tensor,
    level: torch.Tensor,
    width: torch.Tensor,
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
    level, width, table = (each.contiguous() for each in (level, width, table))
    bridge.launch(
        run.locate,
        count,
        feature,
        level,
        *elevation_arguments(dim, tap_variance, run.Real),
        width,
        table,
        weight,
        row,
        device=device,
    )
    return weight, row


def _fake(feature, level, width, table, tap_variance):
    count, dim = feature.shape
    row = torch.empty(count, dim + 1, dtype=torch.int32, device=feature.device)
    return feature.new_empty(count, dim + 1), row


def _save(ctx: Any, inputs: tuple, output: tuple) -> None:
    ctx.tap_variance = inputs[-1]
    ctx.save_for_backward(inputs[0])
    ctx.mark_non_differentiable(output[1])


def _backward(ctx: Any, grad: torch.Tensor, _: Any) -> tuple:
    grad_feature = embed_adjoint(grad, *ctx.saved_tensors, ctx.tap_variance)
    return grad_feature, None, None, None, None


def _jvp(inputs: tuple, tangents: tuple) -> tuple:
    return embed_tangent(tangents[0], inputs[0], inputs[-1]), None


hash_locate = define(
    "hash_locate(Tensor feature, Tensor level, Tensor width, Tensor table,"
    " float tap_variance) -> (Tensor weight, Tensor row)",
    _hash_locate,
    _fake,
    save=_save,
    backward=_backward,
    jvp=_jvp,
)
