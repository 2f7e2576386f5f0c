"""The gradient of a fixed point, without the steps that led to it."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

# Relative residual of the adjoint equation, and how many products it may take.
_RESIDUAL = 1e-6
_RESTART = 20
_MOST_ROUNDS = 10


def attach_gradient(step: Callable[[Tensor], Tensor], fixed: Tensor) -> Tensor:
    r"""One step from the fixed point of ``step``, with the gradient of the fixed point.

    The implicit function theorem gives it as that of one step, after the incoming gradient
    :math:`g` was replaced by the solution of :math:`(I - J^{\top}) h = g`, where :math:`J` is the
    Jacobian of the step.
    """
    fixed = fixed.detach()
    out = step(fixed)
    if not out.requires_grad:
        return out
    start = fixed.clone().requires_grad_()
    again = step(start)

    def adjoint(gradient: Tensor) -> Tensor:
        (product,) = torch.autograd.grad(again, start, gradient, retain_graph=True)
        return gradient - product

    out.register_hook(lambda gradient: _solve(adjoint, gradient))
    return out


def _solve(apply: Callable[[Tensor], Tensor], right: Tensor) -> Tensor:
    """The solution of ``apply(h) == right``, by GMRES."""
    from scipy.sparse.linalg import LinearOperator, gmres

    def product(flat: np.ndarray) -> np.ndarray:
        with torch.enable_grad():
            given = torch.from_numpy(flat.reshape(right.shape)).to(right)
        return apply(given).double().cpu().numpy().ravel()

    size = right.numel()
    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    flat = right.double().cpu().numpy().ravel()
    limit = {"rtol": _RESIDUAL, "atol": 0.0, "restart": _RESTART, "maxiter": _MOST_ROUNDS}
    solution, failed = gmres(operator, flat, **limit)
    if failed:
        warnings.warn(
            f"The implicit gradient did not converge in {_RESTART * _MOST_ROUNDS} products; the "
            "CRF may not be at a fixed point (use more steps, damping or a smaller tolerance)",
            stacklevel=2,
        )
    return torch.from_numpy(solution.reshape(right.shape)).to(right)
