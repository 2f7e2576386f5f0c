"""Boxes that number lattice points: integer coordinates to codes and back.

In the grid coordinates of ``kernels/simplex.py`` a lattice point is an integer vector ``c``. Bound
the cloud's vectors, pad the box, and number its points by mixed radix, the graph outermost: ``code
= graph * stride_graph + sum_j (c_j - low_j) * stride_j``. Corners of a simplex and neighbors in a
stencil are then a code plus a constant, and codes are ordered like ``(graph, c_0, c_1, ...)``. A
code that would overflow one word takes several, each of whole coordinates, the most significant
first. Adding a constant is exact: inside the padding no coordinate carries into another.

A box is a tensor ``[d + 1, 2 + words]`` int64: low, extent and the stride in each word, a row for
each coordinate and the last row for the graph.
"""

from __future__ import annotations

import torch

from permutogeo.runtime import memory

# Cells around the cloud: stencils that reach further need codes in a larger box.
PADDING = 2
_WORD = 2**62


def make(low: list[int], high: list[int], graphs: int, padding: int = PADDING) -> torch.Tensor:
    """Return the box of coordinates ``low .. high``, padded, for ``graphs`` graphs."""
    lows = [value - padding for value in low] + [0]
    extents = [b - a + 1 + 2 * padding for a, b in zip(low, high, strict=True)] + [max(graphs, 1)]
    rank = [len(low), *range(len(low))]  # the graph is the most significant
    place: dict[int, tuple[int, int]] = {}
    word, stride = 0, 1
    for axis in reversed(rank):
        if stride * extents[axis] > _WORD:
            word, stride = word + 1, 1
        place[axis] = (word, stride)
        stride *= extents[axis]
    box = [[a, extent, *[0] * (word + 1)] for a, extent in zip(lows, extents, strict=True)]
    for axis, (position, step) in place.items():
        box[axis][2 + word - position] = step
    return torch.tensor(box, dtype=torch.int64)


def pad(box: torch.Tensor, more: int) -> torch.Tensor:
    """Return a box with ``more`` further cells of padding on every side."""
    low, extent = box[:-1, 0], box[:-1, 1]
    return make(low.tolist(), (low + extent - 1).tolist(), int(box[-1, 1]), more)


def halve(box: torch.Tensor) -> torch.Tensor:
    """Return a box of the coordinates ``floor(c / 2)`` and ``ceil(c / 2)`` of those in a box."""
    *axes, (_, graphs, *_) = box.tolist()
    low = [(first + PADDING) // 2 for first, *_ in axes]
    high = [(first + extent - PADDING) // 2 for first, extent, *_ in axes]
    return memory.upload(make(low, high, graphs), box.device)


def encode(coordinate: torch.Tensor, box: torch.Tensor) -> torch.Tensor:
    """Return the codes ``[n, words]`` of coordinates ``[n, d + 1]`` (the last one is the graph)."""
    relative = coordinate - box[:, 0]
    # torch has no integer matrix product on CUDA.
    return (relative.unsqueeze(-1) * box[:, 2:]).sum(1)


def decode(code: torch.Tensor, box: torch.Tensor) -> torch.Tensor:
    """Return the coordinates ``[n, d + 1]`` of codes ``[n, words]``."""
    low, extent, stride = box[:, 0], box[:, 1], box[:, 2:]
    word = stride.argmax(dim=1)
    step = stride.gather(1, word.unsqueeze(1)).squeeze(1)
    return code[:, word].div(step, rounding_mode="floor") % extent + low


def graph(code: torch.Tensor, box: torch.Tensor) -> torch.Tensor:
    """Return the graph ``[n]`` of codes ``[n, words]``, their most significant coordinate."""
    return code[:, 0].div(box[-1, 2], rounding_mode="floor")


def contains(coordinate: torch.Tensor, box: torch.Tensor) -> torch.Tensor:
    """Return which of the coordinates ``[n, d + 1]`` lie in the box."""
    relative = coordinate - box[:, 0]
    return ((relative >= 0) & (relative < box[:, 1])).all(1)
