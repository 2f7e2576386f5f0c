"""Neighbor table: the vertex at every stencil offset of every vertex."""

from __future__ import annotations

import math
from functools import cache

import torch

from permutogeo.kernels import neighbors as kernels
from permutogeo.ops import boxes, stencils
from permutogeo.ops._library import define
from permutogeo.runtime import bridge, memory

# Blocks of vertices, times offsets, in a part of a split launch: waking a thread takes longer than
# fewer.
_FEWEST_BLOCKS = 96

# Values that one call copies sooner than several.
_FEW_VALUES = 2**15

# One offset of each opposite pair [H, d, 1], the columns of the pair [H, 2] int32, the largest
# coordinate of an offset, and the number of offsets.
_HalfStencil = tuple[torch.Tensor, torch.Tensor, int, int]


@cache
def _half_stencil(dim: int, radius: int, dilation: int, stencil: str) -> _HalfStencil:
    offset = stencils.grid_offsets(dim, radius, dilation, stencil)
    return _halve(offset, stencils.opposite(dim, radius, stencil))


@cache
def _half_cube(kernel_size: tuple[int, ...], dilation: tuple[int, ...]) -> _HalfStencil:
    offset = stencils.cubic_offsets(list(kernel_size), list(dilation))
    return _halve(offset, torch.arange(len(offset), device="cpu").flip(0))


def _halve(offset: torch.Tensor, opposite: torch.Tensor) -> _HalfStencil:
    """Return one of each pair of opposite offsets; on the CPU, since a mask would synchronize."""
    index = torch.arange(len(offset), device="cpu")
    half = index <= opposite  # the centre is its own opposite
    column = torch.stack([index[half], opposite[half]], 1).to(torch.int32)
    return offset[half].unsqueeze(-1), column, int(offset.abs().max()), len(offset)


def with_zero_row(values: torch.Tensor) -> torch.Tensor:
    """Return a copy ``[M + 1, C]`` that ends in a row of zeros, read by the index of absent
    neighbors."""
    count, channels = values.shape
    if count * channels <= _FEW_VALUES and values.device.type == "cpu":
        return torch.constant_pad_nd(values.detach(), (0, 0, 0, 1))
    padded = memory.empty(count + 1, channels, dtype=values.dtype, device=values.device)
    memory.copy(padded[:count], values)
    padded[count] = 0
    return padded


def _neighbors(
    code: torch.Tensor, box: torch.Tensor, radius: int, dilation: int, stencil: str
) -> torch.Tensor:
    # The table of axes is stored by columns, as the blur reads it.
    half = _half_stencil(box.shape[0] - 1, radius, dilation, stencil)
    return _merge(code, box, half, by_column=stencil == "axis")


def _cubic_neighbors(
    code: torch.Tensor, box: torch.Tensor, kernel_size: list[int], dilation: list[int]
) -> torch.Tensor:
    return _merge(code, box, _half_cube(tuple(kernel_size), tuple(dilation)))


def _merge(
    code: torch.Tensor, box: torch.Tensor, half: _HalfStencil, by_column: bool = False
) -> torch.Tensor:
    """Return the neighbors of all vertices at the offsets of a stencil, ``[M, K]``."""
    device, code = code.device, code.contiguous()
    count = code.shape[0]
    offset, column, reach, taps = half
    shape = (taps, count) if by_column else (count, taps)
    out = memory.full(*shape, value=-1, dtype=torch.int32, device=device)
    out = out.t() if by_column else out
    if count == 0:
        return out
    offset, column = memory.upload(offset, device), memory.upload(column, device)
    if reach > boxes.PADDING:
        # Beyond the padding, offsets would carry from one coordinate into the next.
        wider = memory.upload(boxes.pad(box.cpu(), reach), device)  # one read
        code, box = boxes.encode(boxes.decode(code, box), wider).contiguous(), wider
    step = (offset * box[:-1, 2:]).sum(1).contiguous()
    run = bridge.load_kernels(kernels.make, code.shape[1], device=device)
    bridge.launch(
        run.merge,
        -(-count // kernels.BLOCK),
        code,
        step,
        column,
        out,
        device=device,
        inner=(offset.shape[0],),
        grain=max(1, _FEWEST_BLOCKS // offset.shape[0]),
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
        like.device, copy=True, non_blocking=True
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
