"""Batch normalization of weighted rows, in kernels on the CPU and else by torch."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from permutogeo.kernels import batch_norm as kernels
from permutogeo.ops._library import is_plain
from permutogeo.runtime import bridge, memory, threads

# Fewer values are normalized by torch's operators in less Python and no more time.
_FEWEST_VALUES = 2**13
# Fewest runs of rows for which several threads are faster than one.
_FEWEST_RUNS = 8


def batch_norm(
    values: Tensor,
    mass: Tensor,
    count: Tensor,
    weight: Tensor,
    bias: Tensor,
    eps: float,
    relu: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalize rows by their weighted mean and variance.

    Args:
        values: Rows ``[M, C]``.
        mass: Their weights ``[M, 1]``.
        count: Sum of the weights, ``[]``.
        weight: Factor ``[C]`` of the normalized rows.
        bias: Added to them, ``[C]``.
        eps: Added to the variance.
        relu: Whether a ReLU follows.

    Returns:
        The normalized rows, and mean and variance ``[C]``.
    """
    tensors = (values, mass, count, weight, bias)
    if _fuses(*tensors):
        return _fused(*tensors, eps, relu)
    mean, var = statistics(values, mass, count)
    return normalize(values, mean, var, weight, bias, eps, relu), mean, var


def _fuses(values: Tensor, mass: Tensor, count: Tensor, weight: Tensor, bias: Tensor) -> bool:
    """Return whether to use the kernels: for ordinary tensors on the CPU that are not tiny."""
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
    relu: bool = False,
) -> Tensor:
    """Return rows of the given mean and variance as rows of mean ``bias`` and deviation
    ``weight``, and if ``relu`` their positive part."""
    out = (values - mean) * (var + eps).rsqrt()
    if weight is not None and bias is not None:
        out = out * weight + bias
    return out.relu() if relu else out


def _launch(kernel: Any, *args: Any) -> None:
    """Launch all steps at once, or one by one on several threads."""
    *_, out = args
    device, runs = out.device, -(-out.shape[0] // kernels.RUN)
    if threads.count() == 1 or runs < _FEWEST_RUNS:
        bridge.launch(kernel, 1, sum(kernels.STEPS), runs, *args, device=device)
        return
    for step in kernels.STEPS:
        size = 1 if step == kernels.COMBINE else runs
        bridge.launch(kernel, size, step, 1, *args, device=device, grain=_FEWEST_RUNS // 2)


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Any:
        values, mass, total_mass, weight, bias, eps, relu = inputs
        x, floor = values.contiguous(), 0.0 if relu else -math.inf
        count, channels = x.shape
        runs = -(-count // kernels.RUN)
        total, moments = x.new_empty(runs, 1), x.new_empty(2 * runs, channels)
        by = x.new_empty(5, channels)
        out = memory.empty(*x.shape, dtype=x.dtype, device=x.device)
        run = bridge.load_kernels(kernels.make, x.dtype, device=x.device)
        scalars = (weight, bias, eps, floor)
        _launch(run.normalize, mass, x, *scalars, total, moments, moments, by, by, out)
        ctx.save_for_backward(values, mass, total_mass, weight, bias)
        ctx.eps, ctx.relu, ctx.known = eps, relu, (total, floor, by)
        mean, var = by[0], by[4]
        ctx.mark_non_differentiable(mean, var)
        return out, mean, var

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple:
        values, mass, count, weight, bias = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative follows
            return _differentiable(ctx, grad, values, mass, count, weight, bias)
        total, floor, by = ctx.known
        x, grad = values.contiguous(), grad.contiguous()
        channels = x.shape[1]
        products, back = x.new_empty(2 * total.shape[0], channels), x.new_empty(4, channels)
        out = memory.empty(*x.shape, dtype=x.dtype, device=x.device)
        run = bridge.load_kernels(kernels.make, x.dtype, device=x.device)
        twice = (products, products, back, back)
        _launch(run.backward, mass, total, x, floor, by, by, grad, *twice, out)
        return out, None, None, back[2], back[3], None, None


# The base class's: torch's own looks for transforms, which ``_fuses`` has excluded.
_fused = super(torch.autograd.Function, _Fused).apply


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
    out = normalize(values, *statistics(values, mass, count), weight, bias, ctx.eps, ctx.relu)
    needed = [ctx.needs_input_grad[i] for i in (0, 3, 4)]
    given = zip((values, weight, bias), needed, strict=True)
    inputs = [each for each, is_needed in given if is_needed]
    grads = iter(torch.autograd.grad(out, inputs, grad, create_graph=True))
    grad_values, *others = (next(grads) if is_needed else None for is_needed in needed)
    return grad_values, None, None, *others, None, None
