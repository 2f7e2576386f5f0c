"""Sums over the ranks of torch.distributed."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class _SumOverRanks(torch.autograd.Function):
    """Every rank's loss depends on every rank's summand: gradients are summed too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        total = x.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return sum_over_ranks(grads[0].contiguous(), ctx.group), None


def several_ranks(group: Any = None) -> bool:
    """Whether there are other ranks to speak to."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size(group) > 1


def sum_over_ranks(x: Tensor, group: Any = None) -> Tensor:
    """The sum of ``x`` over all ranks, with its gradient."""
    return _SumOverRanks.apply(x, group)
