"""The lattice of half the resolution, by arithmetic on the codes of a lattice."""

from __future__ import annotations

import torch

from permutogeo.kernels import coarsen as kernels
from permutogeo.ops import boxes, marks
from permutogeo.ops._library import define
from permutogeo.ops.table import look_up, unique_codes
from permutogeo.runtime import bridge, memory

# Codes that a binary search finds sooner than a hash table is made.
_FEW_CODES = 4096
# Vertices of a thread on the CPU, which reads the arguments of a launch again for each index.
_OWNED = 16


def _coarsen(
    code: torch.Tensor, box: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the codes of the coarse vertices, their box, and the two coarse vertices whose
    midpoint each fine vertex is, ``[M, 2]`` int32.

    Both are equal where the fine vertex lies on a coarse one. The ends of the fine vertices are the
    corners of the coarse simplices that contain the points: a fine simplex lies inside one of them,
    and its corners touch all corners of that one.
    """
    device, count = code.device, code.shape[0]
    coarse_box = boxes.halve(box)
    words = coarse_box.shape[1] - 2
    code, box = code.contiguous(), box.contiguous()
    if device.type == "cpu" and marks.suit(coarse_box, 2 * count):
        ends = torch.empty(count, 2, dtype=torch.int64)
        _halve(code, box, coarse_box, ends.t())
        coarse, vertex = marks.unique(ends.view(-1), coarse_box)
        return coarse, coarse_box, vertex.view(count, 2)
    ends = memory.empty(2, count, words, dtype=torch.int64, device=device)
    _halve(code, box, coarse_box, ends.view(2, count * words))
    coarse = unique_codes(ends.unbind())
    vertex = _positions(ends.view(-1, words), coarse)
    return coarse, coarse_box, vertex.view(2, count).t().contiguous()


def _halve(
    code: torch.Tensor, box: torch.Tensor, coarse_box: torch.Tensor, ends: torch.Tensor
) -> None:
    """Write the codes of both ends of each vertex, ``[2, M words]``."""
    run = bridge.load_kernels(kernels.make, coarse_box.shape[1] - 2, device=code.device)
    owned = _OWNED if code.device.type == "cpu" else 1
    size, arguments = -(-code.shape[0] // owned), (owned, code, box, coarse_box, ends)
    bridge.launch(run.halve, size, *arguments, device=code.device, grain=1024 // owned)


def _positions(wanted: torch.Tensor, code: torch.Tensor) -> torch.Tensor:
    """Return the position of each code in ascending codes, all of which are present."""
    if code.shape[1] == 1 and wanted.shape[0] <= _FEW_CODES:
        return torch.searchsorted(code[:, 0], wanted[:, 0], out_int32=True)
    return look_up(wanted, code)


def _fake(code, box):
    context = torch.library.get_ctx()
    vertices, words = context.new_dynamic_size(min=0), context.new_dynamic_size(min=1)
    return (
        code.new_empty(vertices, words),
        box.new_empty(box.shape[0], words + 2),
        code.new_empty(code.shape[0], 2, dtype=torch.int32),
    )


coarsen = define("coarsen(Tensor code, Tensor box) -> (Tensor, Tensor, Tensor)", _coarsen, _fake)
