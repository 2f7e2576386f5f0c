"""Solvers of a dense CRF: mean field, fused mean field, Frank-Wolfe, and implicit gradients."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from permutogeo.checks import check_choice, fail
from permutogeo.nn.crf.kernels import FusedKernel
from permutogeo.nn.crf.problem import CRFProblem, Pairwise
from permutogeo.ops.mean_field import BlurFilter, FusedMeanField, VertexFilter

# Implicit gradient: relative residual, restart length and restarts of GMRES.
_RESIDUAL = 1e-6
_RESTART = 20
_MAX_RESTARTS = 10


class Solver(ABC):
    """Base class of the solvers."""

    @abstractmethod
    def step(self, problem: CRFProblem, logits: Tensor, step: int) -> Tensor:
        """Return the logits ``[N, L]`` of the marginals after one more step.

        Neither the given nor the returned logits need be normalized.
        """


class MeanField(Solver):
    r"""Mean field with parallel updates, from the `"Efficient Inference in Fully Connected CRFs
    with Gaussian Edge Potentials" <https://arxiv.org/abs/1210.5644>`_ paper.

    .. math::
        \log \mathbf{q} \leftarrow (1 - \lambda) \left( \mathbf{u} - \sum_m w_m (K_m Q) \mu_m
        \right) + \lambda \log \mathbf{q}

    up to normalization, where :math:`\lambda` is the damping of the `"Principled Parallel
    Mean-Field Inference" <https://arxiv.org/abs/1511.06103>`_ paper.

    Args:
        damping: Weight :math:`\lambda` of the previous logits. With strong kernels, the marginals
            may oscillate without damping; with enough of it, each step lowers the free energy.

    Example:

        >>> MeanField(damping=0.5)
        MeanField(damping=0.5)
    """

    def __init__(self, damping: float = 0.0):
        if not 0 <= damping < 1:
            fail(self, f"Expected 'damping' in [0, 1) (got {damping})")
        self.damping = damping

    def step(self, problem: CRFProblem, logits: Tensor, step: int) -> Tensor:
        """Return the logits after one update of all points."""
        update = problem.update(logits.softmax(1), step)
        return torch.lerp(update, logits, self.damping) if self.damping else update

    def __repr__(self) -> str:
        return f"{type(self).__name__}(damping={self.damping:g})"


class FrankWolfe(Solver):
    r"""Regularized Frank-Wolfe from the `"Regularized Frank-Wolfe for Dense CRFs: Generalizing Mean
    Field and Beyond" <https://arxiv.org/abs/2110.14759>`_ paper.

    .. math::
        \mathbf{q} \leftarrow (1 - \alpha) \mathbf{q} + \alpha \, \mathrm{argmin}_{\mathbf{p}}
        \left( \nabla E(\mathbf{q}) \cdot \mathbf{p} + \lambda \, r(\mathbf{p}) \right)

    where :math:`r` is the negative entropy (the minimum is a softmax) or half the squared norm (the
    minimum is a projection onto the simplex, with marginals that are exactly zero).

    Args:
        regularizer: ``"entropy"`` or ``"l2"``.
        strength: The factor :math:`\lambda`.
        step_size: The factor :math:`\alpha`; ``None`` for :math:`2 / (2 + t)` at step :math:`t`.
            ``"entropy"`` with a strength and a step size of 1 is mean field.

    Example:

        >>> FrankWolfe("l2", strength=0.5)
        FrankWolfe('l2', strength=0.5)
    """

    def __init__(
        self,
        regularizer: str = "entropy",
        strength: float = 1.0,
        step_size: float | None = None,
    ):
        check_choice(self, "regularizer", regularizer, ("entropy", "l2"))
        if not 0 < strength < float("inf"):
            fail(self, f"Expected a positive 'strength' (got {strength})")
        if step_size is not None and not 0 < step_size <= 1:
            fail(self, f"Expected 'step_size' in (0, 1] (got {step_size})")
        self.regularizer = regularizer
        self.strength = strength
        self.step_size = step_size

    def step(self, problem: CRFProblem, logits: Tensor, step: int) -> Tensor:
        """Return the logits after one step."""
        q = logits.softmax(1)
        update = problem.update(q, step) / self.strength
        best = update.softmax(1) if self.regularizer == "entropy" else project_to_simplex(update)
        size = 2 / (step + 2) if self.step_size is None else self.step_size
        # A marginal may be 0, which has no logarithm.
        return torch.lerp(q, best, size).clamp_min(torch.finfo(q.dtype).tiny).log()

    def __repr__(self) -> str:
        size = "" if self.step_size is None else f", step_size={self.step_size:g}"
        return f"{type(self).__name__}({self.regularizer!r}, strength={self.strength:g}{size})"


def project_to_simplex(rows: Tensor) -> Tensor:
    """Return the projection of each row ``[N, L]`` onto the probability simplex.

    Example:

        >>> project_to_simplex(torch.tensor([[0.5, 0.5, 0.2], [9.0, 0.0, 0.0]]))
        tensor([[0.4333, 0.4333, 0.1333],
                [1.0000, 0.0000, 0.0000]])
    """
    # Relative to the maximum, so that large logits do not cancel.
    rows = rows - rows.amax(1, keepdim=True)
    ordered = rows.sort(1, descending=True).values
    above = ordered.cumsum(1) - 1
    rank = torch.arange(1, rows.shape[1] + 1, dtype=rows.dtype, device=rows.device)
    kept = (ordered * rank > above).sum(1, keepdim=True)
    return (rows - above.gather(1, kept - 1) / kept).clamp_min(0)


def find_solver(owner: object, solver: str | Solver, damping: float) -> Solver:
    """Return the solver of this name, or the given one."""
    if isinstance(solver, Solver):
        if damping:
            fail(owner, f"Expected 'damping' with solver='mean_field' only (got {solver})")
        return solver
    check_choice(owner, "solver", solver, ("mean_field", "frank_wolfe"))
    if solver == "mean_field":
        return MeanField(damping)
    return find_solver(owner, FrankWolfe(), damping)


def is_fusable(problem: CRFProblem) -> bool:
    """Whether :func:`solve_fused` supports the problem."""
    unary = problem.unary
    if torch.compiler.is_compiling() or unary.device.type != "cpu" or not problem.pairwise[0]:
        return False
    if unary.dtype != torch.float32 or not unary.shape[1]:
        return False
    return all(
        operator.self_term is None
        # The kernels of several lattices run on several threads, which cannot exchange in order.
        and not operator.points.sharded
        # All steps share the lattices of the first.
        and operator.points.vertex is first.points.vertex
        for step in problem.pairwise
        for (operator, _), (first, _) in zip(step, problem.pairwise[0], strict=True)
    )


def solve_fused(problem: CRFProblem, num_steps: int, log: bool = True) -> Tensor:
    """Run undamped mean field without autograd, fusing slice, softmax and splat.

    Args:
        log: Return the logarithms of the marginals.

    Returns:
        The marginals or their logarithms, ``[N, L]``.
    """
    steps = [[operator.fused() for operator, _ in terms] for terms in problem.pairwise]
    filters = [
        [_vertex_filter(term, kernel) for term, kernel in zip(terms, kernels, strict=True)]
        for terms, kernels in zip(problem.pairwise, steps, strict=True)
    ]
    difference = all(
        isinstance(each, BlurFilter) and each.mix is None for step in filters for each in step
    )
    fused = FusedMeanField(problem.unary, [each.corners for each in steps[0]], difference)
    for response, kernel in zip(fused.responses, steps[0], strict=True):
        if response is not None:
            kernel.keep(response)
    for step in range(num_steps):
        fused.step(filters[step % len(filters)])
    return fused.marginals(log)


def _vertex_filter(term: Pairwise, kernel: FusedKernel) -> VertexFilter:
    """Return the kernel and the compatibility on values at vertices."""
    operator, compatibility = term
    if kernel.corners.blur is None:
        return lambda values: compatibility.attraction(operator.filter(values))
    scale = compatibility.scale()
    mix = compatibility.attraction if scale is None else None
    return BlurFilter(kernel.corners.blur, kernel.factor * (1.0 if scale is None else scale), mix)


def attach_implicit_gradient(step: Callable[[Tensor], Tensor], fixed: Tensor) -> Tensor:
    r"""Return one step from a fixed point of ``step``, with the gradient of the fixed point.

    By the implicit function theorem it is the gradient of one step after the incoming gradient
    :math:`g` is replaced by the solution of :math:`(I - J^{\top}) h = g`, where :math:`J` is the
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

    out.register_hook(lambda gradient: _solve_linear(adjoint, gradient))
    return out


def _solve_linear(apply: Callable[[Tensor], Tensor], right: Tensor) -> Tensor:
    """Solve ``apply(h) == right`` by GMRES."""
    from scipy.sparse.linalg import LinearOperator, gmres

    def product(flat: np.ndarray) -> np.ndarray:
        with torch.enable_grad():
            given = torch.from_numpy(flat.reshape(right.shape)).to(right)
        return apply(given).double().cpu().numpy().ravel()

    size = right.numel()
    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    flat = right.double().cpu().numpy().ravel()
    limit = {"rtol": _RESIDUAL, "atol": 0.0, "restart": _RESTART, "maxiter": _MAX_RESTARTS}
    solution, failed = gmres(operator, flat, **limit)
    if failed:
        warnings.warn(
            f"The implicit gradient did not converge in {_RESTART * _MAX_RESTARTS} products; the "
            "CRF may not be at a fixed point (use more steps, damping or a smaller tolerance)",
            stacklevel=2,
        )
    return torch.from_numpy(solution.reshape(right.shape)).to(right)
