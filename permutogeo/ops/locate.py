"""Incidence of other points on an existing lattice."""

from __future__ import annotations

from typing import Any

import torch

from permutogeo.kernels import build as kernels
from permutogeo.ops._library import define
from permutogeo.ops.build import PointArguments, grid_extent
from permutogeo.ops.embed import embed_adjoint, embed_tangent
from permutogeo.ops.table import shift
from permutogeo.runtime import bridge, memory


def _locate(
    feature: torch.Tensor,
    batch: torch.Tensor | None,
    code: torch.Tensor,
    box: torch.Tensor,
    slots: torch.Tensor,
    tap_variance: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    feature = feature.detach().contiguous()
    count, dim = feature.shape
    device = feature.device
    weight = memory.empty(count, dim + 1, dtype=feature.dtype, device=device)
    vertex = memory.empty(count, dim + 1, dtype=torch.int32, device=device)
    if count == 0:
        return weight, vertex
    grid_extent(feature, batch, tap_variance)
    code = code.contiguous()
    run = bridge.load_kernels(kernels.make, dim, feature.dtype, code.shape[1], device=device)
    points = PointArguments(feature, batch, box, tap_variance, run.Real)
    bridge.launch(
        run.locate,
        count,
        *(*points.points, *points.elevation),
        points.box,
        *points.codes,
        code,
        shift(len(slots)),
        slots,
        weight,
        vertex,
        device=device,
    )
    return weight, vertex


def _fake_locate(feature, batch, code, box, slots, tap_variance):
    count, dim = feature.shape
    vertex = torch.empty(count, dim + 1, dtype=torch.int32, device=feature.device)
    return feature.new_empty(count, dim + 1), vertex


def _save(ctx: Any, inputs: tuple, output: tuple) -> None:
    ctx.tap_variance = inputs[-1]
    ctx.save_for_backward(inputs[0])
    ctx.mark_non_differentiable(output[1])


def _backward(ctx: Any, grad: torch.Tensor, _: Any) -> tuple:
    grad_feature = embed_adjoint(grad, *ctx.saved_tensors, ctx.tap_variance)
    return grad_feature, None, None, None, None, None


def _jvp(inputs: tuple, tangents: tuple) -> tuple:
    return embed_tangent(tangents[0], inputs[0], inputs[-1]), None


locate = define(
    "locate(Tensor feature, Tensor? batch, Tensor code, Tensor box, Tensor slots,"
    " float tap_variance) -> (Tensor weight, Tensor vertex)",
    _locate,
    _fake_locate,
    save=_save,
    backward=_backward,
    jvp=_jvp,
)
