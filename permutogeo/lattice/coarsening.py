"""Vertices of a lattice on the lattice of half the resolution."""

from __future__ import annotations

import torch
from torch import Tensor

from permutogeo import ops
from permutogeo.ops import boxes


def midpoints(coordinate: Tensor, code: Tensor, box: Tensor, slots: Tensor) -> Tensor:
    """Return the two coarse vertices whose midpoint each fine vertex is, ``[M, 2]`` int32.

    Both are equal where the fine vertex lies on a coarse one; ``-1`` where absent.

    Args:
        coordinate: Grid coordinates of the fine vertices and their graph, ``[M, d + 1]``.
        code: Codes of the coarse vertices in ``box``.
        box: Box of the coarse lattice.
        slots: Hash table of the coarse vertices.
    """
    grid, graph = coordinate[:, :-1], coordinate[:, -1:]
    below = grid.div(2, rounding_mode="floor")
    ends = [torch.cat([end, graph], 1) for end in (below, grid - below)]
    return torch.stack([_find(end, code, box, slots) for end in ends], 1)


def _find(coordinate: Tensor, code: Tensor, box: Tensor, slots: Tensor) -> Tensor:
    """Return the vertices at grid coordinates ``[M, d + 1]``, ``-1`` where absent."""
    vertex = ops.find(boxes.encode(coordinate, box), code, slots)
    return vertex.masked_fill(~boxes.contains(coordinate, box), -1)
