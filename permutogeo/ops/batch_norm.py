"""Batch normalization of weighted rows, in kernels on the CPU and else by torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from permutogeo.kernels import batch_norm as kernels
from permutogeo.ops._library import is_plain
from permutogeo.runtime import bridge, memory

# Fewer values are normalized faster by torch's operators, of which each is a pass over memory.
_FEWEST_VALUES = 2**15


def batch_norm(
    values: Tensor, mass: Tensor, count: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalize rows by their weighted mean and variance.

    Args:
        values: Rows ``[M, C]``.
        mass: Their weights ``[M, 1]``.
        count: Sum of the weights, ``[]``.
        weight: Factor ``[C]`` of the normalized rows.
        bias: Added to them, ``[C]``.
        eps: Added to the variance.

    Returns:
        The normalized rows, and mean and variance ``[C]``.
    """
    tensors = (values, mass, count, weight, bias)
    if _fuses(*tensors):
        return _Fused.apply(*tensors, eps)
    mean, var = statistics(values, mass, count)
    return normalize(values, mean, var, weight, bias, eps), mean, var


def _fuses(values: Tensor, mass: Tensor, count: Tensor, weight: Tensor, bias: Tensor) -> bool:
    """Return whether to use the kernels: for ordinary tensors on the CPU of which passes over
    memory cost more than calls."""
    if torch.compiler.is_compiling() or not values.is_cpu or values.numel() < _FEWEST_VALUES:
        return False
    if not values.dtype == weight.dtype == bias.dtype == mass.dtype or mass.requires_grad:
        return False
    return is_plain(values, mass, count, weight, bias)


def statistics(values: Tensor, mass: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weighted mean and variance ``[C]`` of rows; 0 without any weight."""
    divisor = torch.where(count > 0, count, 1.0)
    mean = (mass * values).sum(0) / divisor
    # About the mean: the difference of squares would cancel.
    return mean, (mass * (values - mean).square()).sum(0) / divisor


def normalize(
    values: Tensor,
    mean: Tensor,
    var: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Tensor:
    """Return rows of the given mean and variance as rows of mean ``bias`` and deviation
    ``weight``."""
    out = (values - mean) * (var + eps).rsqrt()
    return out if weight is None or bias is None else out * weight + bias


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Any:
        values, mass, count, weight, bias, eps = inputs
        x = values.detach().contiguous()
        run = bridge.load_kernels(kernels.make, x.dtype, device=x.device)
        runs = -(-len(x) // kernels.RUN)
        total, partial = x.new_empty(runs, 1), x.new_empty(2 * runs, x.shape[1])
        bridge.launch(run.moments, runs, mass, x, total, partial, device=x.device, grain=4)
        means, squares = partial.view(runs, 2, -1).unbind(1)
        divisor = torch.where(count > 0, count, 1.0)
        mean = (total * means).sum(0).div_(divisor)
        # The squares about the mean of all rows follow from those about the means of the runs.
        squares = squares + total * (means - mean).square_()
        var = squares.sum(0).div_(divisor)
        scale = (var + eps).rsqrt_()
        by = torch.stack([mean, scale * weight, bias])
        out = memory.empty(*x.shape, dtype=x.dtype, device=x.device)
        bridge.launch(run.apply, len(x), x, by, out, device=x.device)
        ctx.save_for_backward(values, mass, count, weight, bias)
        ctx.eps, ctx.known = eps, (by, scale, divisor)
        ctx.mark_non_differentiable(mean, var)
        return out, mean, var

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple:
        values, mass, count, weight, bias = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative follows
            return _differentiable(ctx, grad, values, mass, count, weight, bias)
        by, scale, divisor = ctx.known
        x, grad = values.contiguous(), grad.contiguous()
        run = bridge.load_kernels(kernels.make, x.dtype, device=x.device)
        runs = -(-len(x) // kernels.RUN)
        partial = x.new_empty(2 * runs, x.shape[1])
        bridge.launch(run.products, runs, x, by, grad, partial, device=x.device, grain=4)
        total, weighted = partial.view(runs, 2, -1).sum(0)
        grad_weight = weighted * scale
        first = by[1] / divisor
        steps = torch.stack([by[0], by[1], first * total, first * grad_weight * scale])
        out = memory.empty(*x.shape, dtype=x.dtype, device=x.device)
        bridge.launch(run.adjoint, len(x), mass, x, steps, grad, out, device=x.device)
        return out, None, None, grad_weight, total, None


def _differentiable(
    ctx: Any,
    grad: Tensor,
    values: Tensor,
    mass: Tensor,
    count: Tensor,
    weight: Tensor,
    bias: Tensor,
) -> tuple:
    """Return the gradients by torch's own operators, which have derivatives."""
    out = normalize(values, *statistics(values, mass, count), weight, bias, ctx.eps)
    needed = [ctx.needs_input_grad[i] for i in (0, 3, 4)]
    given = zip((values, weight, bias), needed, strict=True)
    inputs = [each for each, is_needed in given if is_needed]
    grads = iter(torch.autograd.grad(out, inputs, grad, create_graph=True))
    grad_values, *others = (next(grads) if is_needed else None for is_needed in needed)
    return grad_values, None, None, *others, None
