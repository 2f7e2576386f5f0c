"""Numbering of the codes of small boxes by a mark for each code, without a hash table."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from permutogeo.kernels import insert as kernels
from permutogeo.runtime import bridge, memory

_CPU = torch.device("cpu")
# Codes of a box, for each corner, up to which marks are faster than a hash table if they take
# little memory, and up to which they take less than the corners.
_MOST, _MOST_ANYWAY = 8, 1 / 8
_FEW_CODES, _LITTLE_MEMORY = 2**13, 2**21


def suit(box: torch.Tensor, corners: int) -> bool:
    """Return whether to mark the codes of so many corners in a box on the CPU."""
    if box.shape[1] != 3:
        return False
    codes = _count_codes(box)
    most = max(_FEW_CODES, _MOST_ANYWAY * corners, min(_LITTLE_MEMORY, _MOST * corners))
    return codes <= most and codes < 2**31


def insert(
    run: Any, arguments: list[Any], box: torch.Tensor, weight: torch.Tensor, vertex: torch.Tensor
) -> torch.Tensor:
    """Embed all points and number their corners.

    Args:
        run: The kernels of ``kernels/insert.py``.
        arguments: Arguments of ``mark`` before ``marks``.
        box: Box of the codes.
        weight: Barycentric weights ``[N, corners]``, written.
        vertex: Positions of the corners in the codes ``[N, corners]`` int32, written.

    Returns:
        The codes ``[M, 1]``, ascending.
    """
    marks, flat = _no_marks(box), vertex.view(-1)
    outputs = (marks, weight, vertex)
    bridge.launch(run.mark, weight.shape[0], *arguments, *outputs, device=_CPU, grain=8192)
    code, position = _number(marks)
    tools = bridge.load_kernels(kernels.make_tools, 1, True, device=_CPU)
    scattered = memory.exceeds_cache(position)
    renumbered = (scattered, position, flat)
    bridge.launch(tools.renumber, flat.shape[0], *renumbered, device=_CPU, grain=8192)
    return code


def unique(codes: torch.Tensor, box: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the distinct ones of codes ``[n]`` as ``[M, 1]``, ascending, and the position of each
    code in them, ``[n]`` int32."""
    marks = _no_marks(box)
    marks.numpy()[codes.numpy()] = 1
    code, position = _number(marks)
    return code, position.index_select(0, codes)


def _count_codes(box: torch.Tensor) -> int:
    return int(box[-1, 1] * box[-1, 2])


def _no_marks(box: torch.Tensor) -> torch.Tensor:
    """Return a mark for each code of a box, none of them set, uint8."""
    return memory.full(_count_codes(box), value=0, dtype=torch.uint8, device=_CPU)


def _number(marks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the marked codes ``[M, 1]``, ascending, and the position of each in them, int32."""
    (code,) = marks.numpy().view(bool).nonzero()
    position = memory.empty(marks.shape[0], dtype=torch.int32, device=_CPU)
    position.numpy()[code] = np.arange(code.shape[0], dtype=np.int32)
    return torch.from_numpy(code).unsqueeze(1), position
