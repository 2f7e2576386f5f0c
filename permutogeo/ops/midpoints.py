"""Vertices of a lattice on the lattice of half the resolution."""

from __future__ import annotations

import torch

from permutogeo.kernels import midpoints as kernels
from permutogeo.ops._library import define
from permutogeo.runtime import bridge, memory


def _midpoints(
    code: torch.Tensor, box: torch.Tensor, coarse_code: torch.Tensor, coarse_box: torch.Tensor
) -> torch.Tensor:
    """Return the two coarse vertices whose midpoint each fine vertex is, ``[M, 2]`` int32.

    Both are equal where the fine vertex lies on a coarse one; ``-1`` where absent.
    """
    device, count = code.device, code.shape[0]
    out = memory.empty(count, 2, dtype=torch.int32, device=device)
    run = bridge.load_kernels(kernels.make, coarse_code.shape[1], device=device)
    code, box = code.contiguous(), box.contiguous()
    coarse_code, coarse_box = coarse_code.contiguous(), coarse_box.contiguous()
    bridge.launch(
        run.halve,
        count,
        *(bridge.array(code, 2), bridge.array(box, 2)),
        *(bridge.array(coarse_code, 1), bridge.array(coarse_box, 2)),
        bridge.array(out, 2),
        device=device,
    )
    return out


midpoints = define(
    "midpoints(Tensor code, Tensor box, Tensor coarse_code, Tensor coarse_box) -> Tensor",
    _midpoints,
    lambda code, box, coarse_code, coarse_box: code.new_empty(code.shape[0], 2, dtype=torch.int32),
)
