"""Neighbors of all vertices at all offsets of a stencil."""

from __future__ import annotations

import torch

from permutogeo import _warp, stencils
from permutogeo.kernels import neighbors as kernels
from permutogeo.ops import box as boxes
from permutogeo.ops._library import define


def _neighbors(
    code: torch.Tensor, box: torch.Tensor, radius: int, dilation: int, stencil: str
) -> torch.Tensor:
    device, dim = code.device, box.shape[0] - 1
    code = code.contiguous()
    offset = stencils.grid_offsets(dim, radius, dilation, stencil).to(device)
    opposite = stencils.opposite(dim, radius, stencil).to(device)
    shape = (len(code), len(offset))
    if stencil == "axis":  # the blur reads it column by column
        out = _warp.full(*shape[::-1], value=-1, dtype=torch.int32, device=device).t()
    else:
        out = _warp.full(*shape, value=-1, dtype=torch.int32, device=device)
    index = torch.arange(len(offset), device=device)
    half = index <= opposite  # the centre is its own opposite
    if len(code) == 0:
        return out
    column = torch.stack([index[half], opposite[half]], 1).to(torch.int32)
    offset = offset[half]
    reach = int(offset.abs().max())
    if reach > boxes.PADDING:
        # Past the padding, offsets would carry from one coordinate into the next.
        wider = boxes.pad(box, reach).to(device)
        code, box = boxes.encode(boxes.decode(code, box), wider).contiguous(), wider
    step = (offset.unsqueeze(-1) * box[:-1, 2:]).sum(1).contiguous()
    run = _warp.kernels(kernels.make, code.shape[1], device=device)
    _warp.launch(
        run.merge,
        -(-len(code) // kernels.BLOCK),
        *(_warp.array(code, 1), _warp.array(step, 1)),
        *(_warp.array(column, 2), _warp.array(out, 2)),
        device=device,
        inner=(len(offset),),
        grain=4,
    )
    return out


def _fake(code, box, radius, dilation, stencil):
    taps = stencils.num_taps(int(box.shape[0]) - 1, radius, stencil)
    if stencil == "axis":
        return code.new_empty(taps, code.shape[0], dtype=torch.int32).t()
    return code.new_empty(code.shape[0], taps, dtype=torch.int32)


neighbors = define(
    "neighbors(Tensor code, Tensor box, int radius, int dilation, str stencil) -> Tensor",
    _neighbors,
    _fake,
)

opposite = define(
    "opposite(Tensor like, int dim, int radius, str stencil) -> Tensor",
    lambda like, dim, radius, stencil: stencils.opposite(dim, radius, stencil).to(
        like.device, copy=True
    ),
    lambda like, dim, radius, stencil: like.new_empty(
        stencils.num_taps(dim, radius, stencil), dtype=torch.int64
    ),
)
