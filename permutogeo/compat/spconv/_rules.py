"""Rules of sparse convolutions: which input voxel reaches which output voxel by which tap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from permutogeo.compat.spconv._voxels import Voxels
from permutogeo.ops import convolve_edges, cubic_neighbors, sort_edges
from permutogeo.ops.strided import StridedKernel, strided_neighbors


@dataclass(frozen=True)
class VoxelPairs:
    """Pairs of input and output voxels, sorted by tap; see ``ops/convolve_edges.py``."""

    edges: Tensor
    begin: Tensor
    back_edges: Tensor
    back_begin: Tensor
    opposite: Tensor
    num_inputs: int
    num_outputs: int

    def reversed(self) -> VoxelPairs:
        """Return the pairs from outputs to inputs, with the same taps."""
        # A submanifold convolution, whose taps would be exchanged, has no inverse.
        return VoxelPairs(
            self.back_edges,
            self.back_begin,
            self.edges,
            self.begin,
            self.opposite,
            self.num_outputs,
            self.num_inputs,
        )

    def convolve(self, values: Tensor, filter: Tensor) -> Tensor:
        """Convolve values ``[N, C]`` with a filter ``[K, C, C']``."""
        indices = (self.edges, self.begin, self.back_edges, self.back_begin, self.opposite)
        return convolve_edges(values, filter, *indices, self.num_outputs)


@dataclass(frozen=True)
class IndiceData:
    """Indices and rules stored under an ``indice_key``; attributes as in spconv."""

    out_indices: Tensor
    indices: Tensor
    spatial_shape: list[int]
    out_spatial_shape: list[int]
    is_subm: bool
    ksize: list[int]
    stride: list[int]
    dilation: list[int]
    padding: list[int]
    edges: VoxelPairs = field(repr=False)
    algo: Any = None


def submanifold_rule(x: Any, kernel_size: list[int], dilation: list[int]) -> IndiceData:
    """Return the rule of a submanifold convolution of a sparse tensor."""
    with torch.inference_mode(False), torch.no_grad():
        voxels: Voxels = x.voxels()
        table = cubic_neighbors(voxels.code, voxels.box, kernel_size, dilation)
        edges, begin = sort_edges(table, voxels.row, voxels.row)
        opposite = torch.arange(table.shape[1], device=table.device).flip(0)
        count = len(table)
        pairs = VoxelPairs(edges, begin, edges, begin, opposite, count, count)
    ones, zeros = [1] * len(kernel_size), [0] * len(kernel_size)
    indices, shape = x.indices, x.spatial_shape
    return IndiceData(
        indices, indices, shape, shape, True, kernel_size, ones, dilation, zeros, pairs
    )


def strided_rule(x: Any, kernel: StridedKernel, shape: Sequence[int]) -> IndiceData:
    """Return the rule of a convolution or pooling whose output has another shape."""
    with torch.inference_mode(False), torch.no_grad():
        voxels: Voxels = x.voxels()
        found = strided_neighbors(voxels.coordinate, kernel, shape, x.batch_size)
        coordinate, inputs, outputs = found
        row = torch.arange(len(coordinate), dtype=torch.int32, device=inputs.device)
        edges, begin = sort_edges(inputs, voxels.row, row)
        back_edges, back_begin = sort_edges(outputs, row, voxels.row)
        taps = torch.arange(math.prod(kernel.size), device=inputs.device)
        counts = (len(outputs), len(inputs))
        pairs = VoxelPairs(edges, begin, back_edges, back_begin, taps, *counts)
        out_indices = torch.cat([coordinate[:, -1:], coordinate[:, :-1]], 1).to(torch.int32)
    return IndiceData(
        out_indices=out_indices,
        indices=x.indices,
        spatial_shape=x.spatial_shape,
        out_spatial_shape=list(shape),
        is_subm=False,
        ksize=list(kernel.size),
        stride=list(kernel.stride),
        dilation=list(kernel.dilation),
        padding=list(kernel.padding),
        edges=pairs,
    )
