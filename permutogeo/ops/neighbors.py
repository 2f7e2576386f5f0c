"""Neighbor table: the vertex at every stencil offset of every vertex."""

from __future__ import annotations

import math

import torch

from permutogeo.kernels import neighbors as kernels
from permutogeo.ops import boxes, stencils
from permutogeo.ops._library import define
from permutogeo.runtime import bridge, memory


def with_zero_row(values: torch.Tensor) -> torch.Tensor:
    """Return a copy ``[M + 1, C]`` that ends in a row of zeros, read by the index of absent
    neighbors."""
    count, channels = values.shape
    padded = memory.empty(count + 1, channels, dtype=values.dtype, device=values.device)
    memory.copy(padded[:count], values)
    padded[count] = 0
    return padded


def _neighbors(
    code: torch.Tensor, box: torch.Tensor, radius: int, dilation: int, stencil: str
) -> torch.Tensor:
    dim = box.shape[0] - 1
    offset = stencils.grid_offsets(dim, radius, dilation, stencil)
    opposite = stencils.opposite(dim, radius, stencil)
    # The table of axes is stored by columns, as the blur reads it.
    return _merge(code, box, offset, opposite, by_column=stencil == "axis")


def _cubic_neighbors(
    code: torch.Tensor, box: torch.Tensor, kernel_size: list[int], dilation: list[int]
) -> torch.Tensor:
    offset = stencils.cubic_offsets(kernel_size, dilation)
    return _merge(code, box, offset, torch.arange(len(offset)).flip(0))


def _merge(
    code: torch.Tensor,
    box: torch.Tensor,
    offset: torch.Tensor,
    opposite: torch.Tensor,
    by_column: bool = False,
) -> torch.Tensor:
    """Return the neighbors at ``offset`` ``[K, d]``, which contains the negative of each."""
    device, code = code.device, code.contiguous()
    shape = (len(code), len(offset))
    shape = shape[::-1] if by_column else shape
    out = memory.full(*shape, value=-1, dtype=torch.int32, device=device)
    out = out.t() if by_column else out
    # On the CPU until the end: indexing by a mask would synchronize.
    index = torch.arange(len(offset), device="cpu")
    half = index <= opposite  # the centre is its own opposite
    if len(code) == 0:
        return out
    column = torch.stack([index[half], opposite[half]], 1).to(device, torch.int32)
    reach = int(offset.abs().max())
    offset = offset[half].to(device)
    if reach > boxes.PADDING:
        # Beyond the padding, offsets would carry from one coordinate into the next.
        wider = boxes.pad(box, reach).to(device)
        code, box = boxes.encode(boxes.decode(code, box), wider).contiguous(), wider
    step = (offset.unsqueeze(-1) * box[:-1, 2:]).sum(1).contiguous()
    run = bridge.load_kernels(kernels.make, code.shape[1], device=device)
    bridge.launch(
        run.merge,
        -(-len(code) // kernels.BLOCK),
        *(bridge.array(code, 1), bridge.array(step, 1)),
        *(bridge.array(column, 2), bridge.array(out, 2)),
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

cubic_neighbors = define(
    "cubic_neighbors(Tensor code, Tensor box, int[] kernel_size, int[] dilation) -> Tensor",
    _cubic_neighbors,
    lambda code, box, kernel_size, dilation: code.new_empty(
        code.shape[0], math.prod(kernel_size), dtype=torch.int32
    ),
)
