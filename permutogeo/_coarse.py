"""Where the vertices of a lattice lie on that of half the resolution."""

from __future__ import annotations

import torch
from torch import Tensor

from permutogeo import ops
from permutogeo.ops import box as boxes


def midpoints(coordinate: Tensor, code: Tensor, box: Tensor, slots: Tensor) -> Tensor:
    """The two coarse vertices that each fine vertex lies half way between, ``[M, 2]`` int32.

    They are the same one where it lies on it, and ``-1`` where there is none.

    Args:
        coordinate: Grid coordinates of the fine vertices and their graph, ``[M, d + 1]``.
        code: Codes of the coarse vertices in ``box``.
        box: The coarse lattice's box.
        slots: Their hash table.
    """
    grid, graph = coordinate[:, :-1], coordinate[:, -1:]
    below = grid.div(2, rounding_mode="floor")
    ends = [torch.cat([end, graph], 1) for end in (below, grid - below)]
    return torch.stack([_find(end, code, box, slots) for end in ends], 1)


def _find(coordinate: Tensor, code: Tensor, box: Tensor, slots: Tensor) -> Tensor:
    """Vertices at grid coordinates ``[M, d + 1]``, ``-1`` where there is none."""
    vertex = ops.find(boxes.encode(coordinate, box), code, slots)
    return vertex.masked_fill(~boxes.contains(coordinate, box), -1)
