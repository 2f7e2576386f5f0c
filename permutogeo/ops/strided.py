"""Outputs of a strided kernel over the points of an integer grid."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from permutogeo.ops import boxes
from permutogeo.ops.table import find, hash_codes, sort_unique


@dataclass(frozen=True)
class StridedKernel:
    """A box of taps that moves in steps over a grid, as in a convolution or in its transpose.

    Tap ``k`` connects input ``i`` and output ``o`` where ``i = o * stride - padding + k *
    dilation``; ``transposed`` exchanges the two.
    """

    size: Sequence[int]
    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    transposed: bool = False

    def axis(self, axis: int, tap: int, coordinate: Tensor, extent: int) -> tuple[Tensor, Tensor]:
        """Return the output coordinates of a tap along one axis, and which of them exist."""
        shift = self.padding[axis] - tap * self.dilation[axis]
        if self.transposed:
            out = coordinate * self.stride[axis] - shift
            return out, (out >= 0) & (out < extent)
        moved = coordinate + shift
        out = moved.div(self.stride[axis], rounding_mode="floor")
        return out, (moved >= 0) & (out < extent) & (out * self.stride[axis] == moved)


def strided_neighbors(
    coordinate: Tensor, kernel: StridedKernel, shape: Sequence[int], graphs: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the outputs of a kernel and its pairs of inputs and outputs.

    Args:
        coordinate: Distinct points of the grid ``[M, d + 1]`` int64; the last column is the graph.
        shape: Extent of the outputs.
        graphs: Number of graphs.

    Returns:
        The outputs ``[M', d + 1]``, in ascending order of graph and coordinates; the input of each
        output and tap ``[M', K]`` int32, and the output of each input and tap ``[M, K]``; ``-1``
        where absent.
    """
    device, taps = coordinate.device, math.prod(kernel.size)
    box = boxes.make([0] * len(shape), [extent - 1 for extent in shape], graphs, 0).to(device)
    sources, codes = [], []
    for source, code in _candidates(coordinate, kernel, shape, box):
        sources.append(source)
        codes.append(code)
    code = _unique(codes)
    target = find(torch.cat(codes), code, hash_codes(code)).long()
    source = torch.cat(sources)
    tap = torch.arange(taps, device="cpu").repeat_interleave(torch.tensor(list(map(len, codes))))
    tap = tap.to(device)
    inputs = torch.full((len(code), taps), -1, dtype=torch.int32, device=device)
    outputs = torch.full((len(coordinate), taps), -1, dtype=torch.int32, device=device)
    inputs[target, tap] = source.to(torch.int32)
    outputs[source, tap] = target.to(torch.int32)
    return boxes.decode(code, box), inputs, outputs


def _candidates(
    coordinate: Tensor, kernel: StridedKernel, shape: Sequence[int], box: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield inputs and codes of the outputs of each tap; both are distinct within a tap."""
    stride = box[:, 2:]
    axes = []
    for axis, size in enumerate(kernel.size):
        found = [kernel.axis(axis, k, coordinate[:, axis], shape[axis]) for k in range(size)]
        axes.append([(out.unsqueeze(1) * stride[axis], exists) for out, exists in found])
    graph = coordinate[:, -1:] * stride[-1]
    for taps in product(*axes):
        exists = taps[0][1]
        for _, other in taps[1:]:
            exists = exists & other
        source = exists.nonzero()[:, 0]
        code = graph[source]
        for part, _ in taps:
            code = code + part[source]
        yield source, code


def _unique(codes: list[Tensor]) -> Tensor:
    """Return the distinct codes ``[n, words]``, ascending."""
    if codes[0].device.type == "cpu":
        return sort_unique(codes)
    joined = torch.cat(codes)
    return joined.unique(dim=0) if joined.shape[1] > 1 else joined[:, 0].unique()[:, None]
