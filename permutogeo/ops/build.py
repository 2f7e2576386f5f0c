"""Features to a lattice: barycentric weights, vertices, and the sorted codes of the vertices."""

from __future__ import annotations

from typing import Any

import torch

from permutogeo.checks import check_graph_ids
from permutogeo.kernels import build as kernels
from permutogeo.kernels import insert as insertion
from permutogeo.ops import boxes, marks
from permutogeo.ops._library import define
from permutogeo.ops.embed import (
    elevation_arguments,
    embed_adjoint,
    embed_tangent,
    feature_range,
    grid_bounds,
)
from permutogeo.ops.insert import InsertionTable, fits_packed
from permutogeo.ops.table import MOST_CODES, claim, sort_codes
from permutogeo.runtime import bridge, memory

_MOST_CORNERS = 2**31 - 1


def _build(
    feature: torch.Tensor, batch: torch.Tensor | None, tap_variance: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    feature = feature.detach().contiguous()
    _check_size(feature)
    box = boxes.make(*grid_extent(feature, batch, tap_variance))
    found = _embed_and_number(feature, batch, box, tap_variance, inside=True)
    return *found, memory.upload(box, feature.device)


def _build_in_box(
    feature: torch.Tensor, batch: torch.Tensor | None, box: torch.Tensor, tap_variance: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Build with the codes of a given box, on the CPU, that should contain all points."""
    feature = feature.detach().contiguous()
    _check_size(feature)
    return _embed_and_number(feature, batch, box, tap_variance, inside=False)


def _embed_and_number(
    feature: torch.Tensor,
    batch: torch.Tensor | None,
    box: torch.Tensor,
    tap_variance: float,
    inside: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return weights, vertices and codes.

    Args:
        inside: Whether the points are known to be in the box.
    """
    count, dim = feature.shape
    device = feature.device
    if count == 0:
        vertex = torch.empty(0, dim + 1, dtype=torch.int32, device=device)
        code = torch.empty(0, box.shape[1] - 2, dtype=torch.int64, device=device)
        return feature.new_empty(0, dim + 1), vertex, code
    weight = memory.empty(count, dim + 1, dtype=feature.dtype, device=device)
    insert = _insert_on_threads if device.type == "cpu" else _insert_atomically
    if inside and device.type == "cpu" and marks.suit(box, weight.numel()):
        insert = _insert_by_marks
    vertex, code = insert(feature, batch, box, tap_variance, weight)
    return weight, vertex, code


def _check_size(feature: torch.Tensor) -> None:
    count, corners, device = feature.shape[0], feature.shape[1] + 1, feature.device.type
    # Elsewhere all corners share one hash table.
    most = _MOST_CORNERS if device == "cpu" else MOST_CODES
    if count * corners > most:
        raise ValueError(
            f"Expected at most {most} corners on {device} (got {count} points of {corners}); "
            f"build one lattice per part of the cloud"
        )


def grid_extent(
    feature: torch.Tensor,
    batch: torch.Tensor | None,
    tap_variance: float,
    name: str = "feature",
    batch_name: str = "batch",
) -> tuple[list[int], list[int], int]:
    """Return bounds of the grid coordinates and the number of graphs.

    Errors name the argument and the row.
    """
    if feature.shape[0] == 0:
        return [0] * feature.shape[1], [0] * feature.shape[1], 1
    *bounds, ids = feature_range(feature, batch)
    low, high = grid_bounds(feature, bounds, tap_variance, name)
    return low, high, 1 if batch is None else check_graph_ids(batch_name, batch, ids)


class PointArguments:
    """Kernel arguments that describe points and their box; owns the tensors behind them.

    Args:
        box: The box, for :attr:`low` on the CPU, so that reading it does not synchronize.
    """

    def __init__(
        self,
        feature: torch.Tensor,
        batch: torch.Tensor | None,
        box: torch.Tensor,
        tap_variance: float,
        real: type,
    ):
        dim, device = feature.shape[1], feature.device
        self.feature, self.box, self.words = feature, memory.upload(box, device), box.shape[1] - 2
        self._given, self._real = box, real
        self.stride = self.box[:, 2:].contiguous()
        self.step = self.box[:dim, 2:].flip(0).contiguous()
        self.batch = self.box.new_empty(0) if batch is None else batch.detach().contiguous()
        self.points = [feature, self.batch]
        self.elevation = elevation_arguments(dim, tap_variance, real)
        self.codes = [self.stride, self.step]

    @property
    def in_box(self) -> list[Any]:
        """Arguments of the kernels that make codes of all points."""
        low = self._real(*self._given[:-1, 0].tolist())
        return [*self.points, *self.elevation, low, *self.codes]


def _insert_on_threads(
    feature: torch.Tensor,
    batch: torch.Tensor | None,
    box: torch.Tensor,
    tap_variance: float,
    weight: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Number the vertices with the hash table of all threads; fills ``weight``."""
    count, corners = weight.shape
    words, packed = box.shape[1] - 2, fits_packed(box)
    key = (corners - 1, feature.dtype, words, packed)
    run = bridge.load_kernels(insertion.make, *key, device=feature.device)
    points = PointArguments(feature, batch, box, tap_variance, run.Real)
    vertex = memory.empty(count, corners, dtype=torch.int32, device=weight.device)
    table = InsertionTable(count, corners, words, packed)
    table.insert(run, points.in_box, weight, vertex)
    return vertex, table.number(vertex)


def _insert_by_marks(
    feature: torch.Tensor,
    batch: torch.Tensor | None,
    box: torch.Tensor,
    tap_variance: float,
    weight: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Number the vertices of a small box by a mark for each code; fills ``weight``."""
    key = (weight.shape[1] - 1, feature.dtype, 1, True)
    run = bridge.load_kernels(insertion.make, *key, device=feature.device)
    points = PointArguments(feature, batch, box, tap_variance, run.Real)
    vertex = memory.empty(*weight.shape, dtype=torch.int32, device=weight.device)
    return vertex, marks.insert(run, points.in_box, box, weight, vertex)


def _insert_atomically(
    feature: torch.Tensor,
    batch: torch.Tensor | None,
    box: torch.Tensor,
    tap_variance: float,
    weight: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Number the vertices with one hash table and atomics; fills ``weight``."""
    count, corners = weight.shape
    device, words = weight.device, box.shape[1] - 2
    run = bridge.load_kernels(kernels.make, corners - 1, feature.dtype, words, device=device)
    points = PointArguments(feature, batch, box, tap_variance, run.Real)
    code = torch.empty(count * corners, words, dtype=torch.int64, device=device)
    bridge.launch(
        run.codes,
        count,
        *points.in_box,
        weight,
        code.view(count, corners * words),
        device=device,
    )
    owner = claim(code)[1]
    first = (owner == torch.arange(len(owner), device=device, dtype=torch.int32)).nonzero()[:, 0]
    order = sort_codes(code[first])
    number = torch.empty_like(owner)
    number[first[order]] = torch.arange(len(first), device=device, dtype=torch.int32)
    return number[owner.long()].view(count, corners), code[first[order]]


def _fake(feature, batch, tap_variance):
    context = torch.library.get_ctx()
    vertices, words = context.new_dynamic_size(min=0), context.new_dynamic_size(min=1)
    count, dim = feature.shape
    integers = {"dtype": torch.int64, "device": feature.device}
    return (
        feature.new_empty(count, dim + 1),
        torch.empty(count, dim + 1, dtype=torch.int32, device=feature.device),
        torch.empty(vertices, words, **integers),
        torch.empty(dim + 1, words + 2, **integers),
    )


def _save(ctx: Any, inputs: tuple, output: tuple) -> None:
    ctx.tap_variance, ctx.num_inputs = inputs[-1], len(inputs)
    ctx.save_for_backward(inputs[0])
    ctx.mark_non_differentiable(*output[1:])


def _backward(ctx: Any, grad: torch.Tensor, *_: Any) -> tuple:
    grad_feature = embed_adjoint(grad, *ctx.saved_tensors, ctx.tap_variance)
    return grad_feature, *(None,) * (ctx.num_inputs - 1)


def _jvp(inputs: tuple, tangents: tuple) -> tuple:
    integers = (None,) * (6 - len(inputs))  # outputs without a tangent
    return embed_tangent(tangents[0], inputs[0], inputs[-1]), *integers


def _fake_in_box(feature, batch, box, tap_variance):
    count, dim = feature.shape
    vertices = torch.library.get_ctx().new_dynamic_size(min=0)
    vertex = torch.empty(count, dim + 1, dtype=torch.int32, device=feature.device)
    code = torch.empty(vertices, box.shape[1] - 2, dtype=torch.int64, device=feature.device)
    return feature.new_empty(count, dim + 1), vertex, code


build = define(
    "build(Tensor feature, Tensor? batch, float tap_variance)"
    " -> (Tensor weight, Tensor vertex, Tensor code, Tensor box)",
    _build,
    _fake,
    save=_save,
    backward=_backward,
    jvp=_jvp,
)

build_in_box = define(
    "build_in_box(Tensor feature, Tensor? batch, Tensor box, float tap_variance)"
    " -> (Tensor weight, Tensor vertex, Tensor code)",
    _build_in_box,
    _fake_in_box,
    save=_save,
    backward=_backward,
    jvp=_jvp,
)
