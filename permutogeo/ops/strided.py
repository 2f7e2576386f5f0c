"""Outputs of a strided kernel over the points of an integer grid, and the maximum over its taps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import torch
from torch import Tensor

from permutogeo.ops import boxes
from permutogeo.ops._library import define, ops
from permutogeo.ops.table import find, hash_codes, sort_unique
from permutogeo.runtime import memory


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
    settings = (kernel.size, kernel.stride, kernel.padding, kernel.dilation)
    return ops.strided_pairs(
        coordinate, *map(list, settings), kernel.transposed, list(shape), graphs
    )


def _strided_pairs(coordinate, size, stride, padding, dilation, transposed, shape, graphs):
    kernel = StridedKernel(size, stride, padding, dilation, transposed)
    device, taps = coordinate.device, math.prod(kernel.size)
    box = boxes.make([0] * len(shape), [extent - 1 for extent in shape], graphs, 0)
    box = memory.upload(box, device)
    sources, codes = [], []
    for source, code in _candidates(coordinate, kernel, shape, box):
        sources.append(source)
        codes.append(code)
    code = _unique(codes)
    target = find(torch.cat(codes), code, hash_codes(code)).long()
    source = torch.cat(sources)
    tap = torch.arange(taps, device="cpu").repeat_interleave(torch.tensor(list(map(len, codes))))
    tap = memory.upload(tap, device)
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


def _fake_pairs(coordinate, size, stride, padding, dilation, transposed, shape, graphs):
    count, taps = torch.library.get_ctx().new_dynamic_size(min=0), math.prod(size)
    inputs = torch.empty(count, taps, dtype=torch.int32, device=coordinate.device)
    outputs = inputs.new_empty(coordinate.shape[0], taps)
    return coordinate.new_empty(count, coordinate.shape[1]), inputs, outputs


def _taps(edges: Tensor, begin: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield inputs and outputs that one tap connects; both are distinct."""
    source, target = edges.long()
    for first, last in pairwise(begin.tolist()):
        if last > first:
            yield source[first:last], target[first:last]


def _maximum(x, edges, begin, count):
    out = x.new_full((count, x.shape[1]), -torch.inf)
    for source, target in _taps(edges, begin):
        out[target] = torch.maximum(out[target], x[source])
    return out


def _to_inputs(grad, x, most, edges, begin):
    out = torch.zeros_like(x)
    for source, target in _taps(edges, begin):
        out[source] += grad[target] * (x[source] == most[target])
    return out


def _to_outputs(term, x, most, edges, begin):
    out = torch.zeros_like(most)
    for source, target in _taps(edges, begin):
        out[target] += term[source] * (x[source] == most[target])
    return out


def _save_maximum(ctx: Any, inputs: tuple, output: Tensor) -> None:
    x, edges, begin, _ = inputs
    ctx.save_for_backward(x, output, edges, begin)


def _backward_maximum(ctx: Any, grad: Tensor) -> tuple:
    x, most, *pairs = ctx.saved_tensors
    return ops.tap_max_adjoint(grad, x.detach(), most.detach(), *pairs), None, None, None


def _jvp_maximum(inputs: tuple, tangents: tuple) -> Tensor:
    x, edges, begin, count = inputs
    x = x.detach()
    most = ops.tap_max(x, edges, begin, count)
    return ops.tap_max_tangent(tangents[0], x, most, edges, begin)


def _save_rest(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.save_for_backward(*inputs[1:])


define(
    "strided_pairs(Tensor coordinate, int[] size, int[] stride, int[] padding, int[] dilation,"
    " bool transposed, int[] shape, int graphs) -> (Tensor, Tensor, Tensor)",
    _strided_pairs,
    _fake_pairs,
)

# Largest row of the inputs of each output; inputs that attain it all get the gradient.
tap_max = define(
    "tap_max(Tensor x, Tensor edges, Tensor begin, SymInt count) -> Tensor",
    _maximum,
    lambda x, edges, begin, count: x.new_empty(count, x.shape[1]),
    save=_save_maximum,
    backward=_backward_maximum,
    jvp=_jvp_maximum,
)

define(
    "tap_max_adjoint(Tensor grad, Tensor x, Tensor most, Tensor edges, Tensor begin) -> Tensor",
    _to_inputs,
    lambda grad, x, most, edges, begin: torch.empty_like(x),
    save=_save_rest,
    backward=lambda ctx, grad: (ops.tap_max_tangent(grad, *ctx.saved_tensors), *[None] * 4),
    linear=[0],
)

define(
    "tap_max_tangent(Tensor term, Tensor x, Tensor most, Tensor edges, Tensor begin) -> Tensor",
    _to_outputs,
    lambda term, x, most, edges, begin: torch.empty_like(most),
    save=_save_rest,
    backward=lambda ctx, grad: (ops.tap_max_adjoint(grad, *ctx.saved_tensors), *[None] * 4),
    linear=[0],
)
