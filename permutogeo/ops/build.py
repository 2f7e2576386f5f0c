"""Features to a lattice: weights, vertices, and the sorted codes of the vertices."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from permutogeo import _threads, _warp
from permutogeo.kernels import build as kernels
from permutogeo.kernels import table as table_kernels
from permutogeo.ops import box as boxes
from permutogeo.ops._library import define
from permutogeo.ops.embed import elevation, embed_adjoint, grid_bounds

_MOST_FIRST_SLOTS = 2**19
# Small tables grow fast, large ones in small steps: they are what a build takes most memory for.
_LARGE = 2**21
# Points that make a table of their own worth while.
_FEWEST_POINTS = 8192
_MOST_CORNERS = 2**31 - 1
_MOST_GRAPHS = 2**62


def _build(
    feature: torch.Tensor, batch: torch.Tensor | None, tap_variance: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    feature = feature.detach().contiguous()
    count, dim = feature.shape
    device = feature.device
    if count == 0:
        box = boxes.make([0] * dim, [0] * dim, 1).to(device)
        vertex = torch.empty(0, dim + 1, dtype=torch.int32, device=device)
        code = torch.empty(0, box.shape[1] - 2, dtype=torch.int64, device=device)
        return feature.new_empty(0, dim + 1), vertex, code, box
    if count * (dim + 1) > _MOST_CORNERS:
        raise ValueError(
            f"Expected at most {_MOST_CORNERS} corners (got {count} points of {dim + 1}); "
            f"build one lattice per part of the cloud"
        )
    box = boxes.make(*check_points(feature, batch, tap_variance))
    weight = _warp.empty(count, dim + 1, dtype=feature.dtype, device=device)
    run = _warp.kernels(kernels.make, dim, feature.dtype, box.shape[1] - 2, device=device)
    points = PointArguments(feature, batch, box.to(device), tap_variance, run.Real)
    fill = _with_tables if device.type == "cpu" else _with_claims
    vertex, code = fill(run, points, weight)
    return weight, vertex, code, box.to(device)


def check_points(
    feature: torch.Tensor,
    batch: torch.Tensor | None,
    tap_variance: float,
    name: str = "feature",
    batch_name: str = "batch",
) -> tuple[list[int], list[int], int]:
    """Bounds of the grid coordinates and the number of graphs; an error names argument and row."""
    if len(feature) == 0:
        return [0] * feature.shape[1], [0] * feature.shape[1], 1
    low, high = grid_bounds(feature, tap_variance, name)
    if batch is None:
        return low, high, 1
    for bad, expected in (
        (batch < 0, "without negative entries"),
        (batch >= _MOST_GRAPHS, "below 2**62"),
    ):
        if bool(bad.any()):
            row = int(bad.nonzero()[0])
            got = int(batch[row])
            raise ValueError(f"Expected '{batch_name}' {expected} (got {got} in row {row})")
    return low, high, int(batch.max()) + 1


class PointArguments:
    """What kernels that read features are told about points and box; keeps it alive."""

    def __init__(
        self,
        feature: torch.Tensor,
        batch: torch.Tensor | None,
        box: torch.Tensor,
        tap_variance: float,
        real: type,
    ):
        dim = feature.shape[1]
        self.stride = box[:, 2:].contiguous()
        self.step = box[:dim, 2:].flip(0).contiguous()
        self.batch = box.new_empty(0) if batch is None else batch.detach().contiguous()
        self.feature, self.box, self.words = feature, box, box.shape[1] - 2
        low = real(*box[:dim, 0].tolist())
        self.points = [_warp.array(feature, 1), _warp.array(self.batch, 1)]
        self.elevation = [*elevation(dim, tap_variance, real), low]
        self.codes = [_warp.array(self.stride, 1), _warp.array(self.step, 1)]


def _with_tables(
    run: Any, points: PointArguments, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """One table for each thread's run of points; their codes are then sorted into one list.

    The numbering is that of the sorted list, whatever the runs were.
    """
    count, corners = weight.shape
    device, words = weight.device, points.words
    vertex = _warp.empty(count, corners, dtype=torch.int32, device=device)
    tables = max(1, min(_threads.count(), count // _FEWEST_POINTS))
    edge = torch.tensor([count * t // tables for t in range(tables + 1)])
    progress, end = edge[:-1].clone(), edge[1:].clone()
    listed = torch.zeros(tables, dtype=torch.int32)
    tools = _warp.kernels(table_kernels.make, words, device=device)
    capacity = min(_MOST_FIRST_SLOTS, _power_of_two(max(4 * corners, count // tables)))
    slots, code = _empty_tables(tables, capacity, words)
    while True:
        _warp.launch(
            run.insert,
            tables,
            *points.points,
            *points.elevation,
            *points.codes,
            _warp.array(end, 1),
            shift(capacity),
            _most_codes(capacity) - corners,
            *(_warp.array(slots, 2), _warp.array(code, 2)),
            *(_warp.array(part, 1) for part in (listed, progress, weight, vertex)),
            device=device,
            grain=1,
        )
        if torch.equal(progress, end):
            break
        capacity *= 4 if capacity < _LARGE else 2
        del slots
        slots, larger = _empty_tables(tables, capacity, words)
        for t, size in enumerate(listed.tolist()):
            larger[t, :size] = code[t, :size]
        code = larger
        del larger
        _warp.launch(
            tools.insert,
            tables,
            *(_warp.array(code, 2), _warp.array(listed, 1)),
            shift(capacity),
            _warp.array(slots, 2),
            device=device,
            grain=1,
        )
    merged = sort_unique([code[t, :size] for t, size in enumerate(listed.tolist())])
    number = torch.empty(tables, int(listed.max()), dtype=torch.int32)
    first = (edge * corners).to(torch.int32)
    _warp.launch(
        tools.renumber,
        tables,
        *(_warp.array(merged, 1), _warp.array(code, 2)),
        shift(capacity),
        _warp.array(slots, 2),
        *(_warp.array(first, 1), _warp.array(number, 2), _warp.array(vertex.view(-1), 1)),
        device=device,
        grain=1,
    )
    return vertex, merged


def _with_claims(
    run: Any, points: PointArguments, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """All codes into one table at once, for devices with real atomics."""
    count, corners = weight.shape
    device, words = weight.device, points.words
    code = torch.empty(count * corners, words, dtype=torch.int64, device=device)
    outputs = (_warp.array(weight, 1), _warp.array(code.view(count, corners, words), 2))
    _warp.launch(
        run.codes,
        count,
        *points.points,
        *points.elevation,
        *points.codes,
        *outputs,
        device=device,
    )
    tools = _warp.kernels(table_kernels.make, words, device=device)
    slots = torch.full((_power_of_two(2 * len(code)),), -1, dtype=torch.int32, device=device)
    owner = torch.empty(len(code), dtype=torch.int32, device=device)
    _warp.launch(
        tools.claim,
        len(code),
        _warp.array(code, 1),
        shift(len(slots)),
        *(_warp.array(slots, 1), _warp.array(owner, 1)),
        device=device,
        grain=len(code),  # one thread on the CPU, where atomics are not atomic
    )
    del slots
    first = (owner == torch.arange(len(owner), device=device, dtype=torch.int32)).nonzero()[:, 0]
    order = _lexicographic_order(code[first])
    number = torch.empty_like(owner)
    number[first[order]] = torch.arange(len(first), device=device, dtype=torch.int32)
    return number[owner.long()].view(count, corners), code[first[order]]


def shift(capacity: int) -> int:
    """How far a 64-bit hash is shifted right to index ``capacity`` slots."""
    return 64 - (capacity.bit_length() - 1)


def hash_capacity(count: int) -> int:
    """Slots for ``count`` codes: at most half of them taken."""
    return _power_of_two(2 * count)


def _most_codes(capacity: int) -> int:
    """When a table is full: searches stay short up to five eighths."""
    return capacity * 5 // 8


def _power_of_two(least: int) -> int:
    return max(16, 1 << (least - 1).bit_length())


def _empty_tables(tables: int, capacity: int, words: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Empty slots, and room for as many codes as they may take."""
    cpu = torch.device("cpu")
    slots = _warp.full(tables, capacity, value=-1, dtype=torch.int32, device=cpu)
    code = _warp.empty(tables, _most_codes(capacity), words, dtype=torch.int64, device=cpu)
    return slots, code


def sort_unique(lists: list[torch.Tensor]) -> torch.Tensor:
    """The different codes of several lists ``[n, words]``, ascending (NumPy sorts by SIMD)."""
    codes = np.concatenate([part.numpy() for part in lists])
    if codes.shape[1] == 1:
        codes[:, 0].sort()
    else:
        codes = codes[np.lexsort(codes.T[::-1])]
    if len(lists) > 1 and len(codes):
        codes = _drop_repetitions(codes)
    return torch.from_numpy(codes)


def _drop_repetitions(codes: np.ndarray, chunk: int = 2**20) -> np.ndarray:
    """Move the different ones of sorted codes to the front, piece by piece for memory's sake."""
    new = np.ones(len(codes), dtype=bool)
    np.any(codes[1:] != codes[:-1], axis=1, out=new[1:])
    kept = 0
    for first in range(0, len(codes), chunk):
        part = codes[first : first + chunk][new[first : first + chunk]]
        codes[kept : kept + len(part)] = part
        kept += len(part)
    return codes[:kept] if kept > 0.9 * len(codes) else codes[:kept].copy()


def _lexicographic_order(code: torch.Tensor) -> torch.Tensor:
    """The permutation that sorts codes ``[n, words]``, the first word most significant."""
    order = torch.arange(len(code), device=code.device)
    for word in reversed(range(code.shape[1])):
        order = order[code[order, word].argsort(stable=True)]
    return order


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
    feature, _, ctx.tap_variance = inputs
    ctx.save_for_backward(feature)
    ctx.mark_non_differentiable(*output[1:])


def _backward(ctx: Any, grad: torch.Tensor, *_: Any) -> tuple:
    return embed_adjoint(grad, *ctx.saved_tensors, ctx.tap_variance), None, None


build = define(
    "build(Tensor feature, Tensor? batch, float tap_variance)"
    " -> (Tensor weight, Tensor vertex, Tensor code, Tensor box)",
    _build,
    _fake,
    save=_save,
    backward=_backward,
)
