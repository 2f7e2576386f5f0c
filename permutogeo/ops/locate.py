"""Other points on an existing lattice."""

from __future__ import annotations

from typing import Any

import torch

from permutogeo import _warp
from permutogeo.kernels import build as kernels
from permutogeo.kernels import table as table_kernels
from permutogeo.ops._library import define
from permutogeo.ops.build import PointArguments, check_points, hash_capacity, shift
from permutogeo.ops.embed import embed_adjoint


def _hash_codes(code: torch.Tensor) -> torch.Tensor:
    device, code = code.device, code.contiguous()
    slots = torch.full((hash_capacity(len(code)),), -1, dtype=torch.int32, device=device)
    tools = _warp.kernels(table_kernels.make, code.shape[1], device=device)
    if device.type == "cpu":
        count = torch.tensor([len(code)], dtype=torch.int32)
        described = (_warp.array(code.unsqueeze(0), 2), _warp.array(count, 1))
        table = _warp.array(slots.unsqueeze(0), 2)
        _warp.launch(tools.insert, 1, *described, shift(len(slots)), table, device=device)
    else:
        owner = torch.empty(len(code), dtype=torch.int32, device=device)
        described = (_warp.array(slots, 1), _warp.array(owner, 1))
        _warp.launch(
            tools.claim,
            len(code),
            _warp.array(code, 1),
            shift(len(slots)),
            *described,
            device=device,
        )
    return slots


def _find(wanted: torch.Tensor, code: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    out = torch.empty(len(wanted), dtype=torch.int32, device=code.device)
    wanted, code = wanted.contiguous(), code.contiguous()
    tools = _warp.kernels(table_kernels.make, code.shape[1], device=code.device)
    _warp.launch(
        tools.find,
        len(wanted),
        *(_warp.array(wanted, 1), _warp.array(code, 1)),
        shift(len(slots)),
        *(_warp.array(slots, 1), _warp.array(out, 1)),
        device=code.device,
    )
    return out


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
    weight = _warp.empty(count, dim + 1, dtype=feature.dtype, device=device)
    vertex = _warp.empty(count, dim + 1, dtype=torch.int32, device=device)
    if count == 0:
        return weight, vertex
    check_points(feature, batch, tap_variance)
    code = code.contiguous()
    run = _warp.kernels(kernels.make, dim, feature.dtype, code.shape[1], device=device)
    points = PointArguments(feature, batch, box, tap_variance, run.Real)
    extent = box[:, 1].tolist()
    _warp.launch(
        run.locate,
        count,
        *points.points,
        extent[dim],
        *points.elevation,
        run.Real(*extent[:dim]),
        *points.codes,
        _warp.array(code, 1),
        shift(len(slots)),
        _warp.array(slots, 1),
        *(_warp.array(weight, 1), _warp.array(vertex, 1)),
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


def _fake_slots(code: torch.Tensor) -> torch.Tensor:
    size = torch.library.get_ctx().new_dynamic_size(min=16)
    return torch.empty(size, dtype=torch.int32, device=code.device)


hash_codes = define("hash_codes(Tensor code) -> Tensor", _hash_codes, _fake_slots)

find = define(
    "find(Tensor wanted, Tensor code, Tensor slots) -> Tensor",
    _find,
    lambda wanted, code, slots: wanted.new_empty(wanted.shape[0], dtype=torch.int32),
)

locate = define(
    "locate(Tensor feature, Tensor? batch, Tensor code, Tensor box, Tensor slots,"
    " float tap_variance) -> (Tensor weight, Tensor vertex)",
    _locate,
    _fake_locate,
    save=_save,
    backward=_backward,
)
