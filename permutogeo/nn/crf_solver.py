"""Ways to the marginals of a dense CRF."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from permutogeo.nn._check import check_choice, fail
from permutogeo.nn._crf_problem import CRFProblem


class Solver(ABC):
    """One step of inference."""

    @abstractmethod
    def step(self, problem: CRFProblem, logits: Tensor, step: int) -> Tensor:
        """The logits ``[N, L]`` of the marginals after one more step.

        Neither those given nor those returned need be normalized.
        """


class MeanField(Solver):
    r"""Mean field with all points updated at once, from the `"Efficient Inference in Fully
    Connected CRFs with Gaussian Edge Potentials" <https://arxiv.org/abs/1210.5644>`_ paper.

    .. math::
        \log \mathbf{q} \leftarrow (1 - \lambda) \left( \mathbf{u} - \sum_m w_m (K_m Q) \mu_m
        \right) + \lambda \log \mathbf{q}

    up to normalization, where :math:`\lambda` is the damping of the `"Principled Parallel
    Mean-Field Inference" <https://arxiv.org/abs/1511.06103>`_ paper.

    Args:
        damping: How much of the old logits is kept. With enough of it, every step lowers the free
            energy; without, strong kernels may make the marginals swing.
    """

    def __init__(self, damping: float = 0.0):
        if not 0 <= damping < 1:
            fail(self, f"Expected 'damping' in [0, 1) (got {damping})")
        self.damping = damping

    def step(self, problem: CRFProblem, logits: Tensor, step: int) -> Tensor:
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

    where :math:`r` is minus the entropy (the minimum is a softmax) or half the squared length (a
    projection onto the simplex, which yields marginals that are exactly zero).

    Args:
        regularizer: ``"entropy"`` or ``"l2"``.
        strength: The factor :math:`\lambda`.
        step_size: The factor :math:`\alpha`; ``None`` for :math:`2 / (2 + t)` at step :math:`t`.
            With ``"entropy"``, a strength and a step size of 1 it is mean field.
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
        q = logits.softmax(1)
        update = problem.update(q, step) / self.strength
        best = update.softmax(1) if self.regularizer == "entropy" else project_to_simplex(update)
        size = 2 / (step + 2) if self.step_size is None else self.step_size
        # A marginal of 0 has no logarithm; the least positive number stands for it.
        return torch.lerp(q, best, size).clamp_min(torch.finfo(q.dtype).tiny).log()

    def __repr__(self) -> str:
        size = "" if self.step_size is None else f", step_size={self.step_size:g}"
        return f"{type(self).__name__}({self.regularizer!r}, strength={self.strength:g}{size})"


def project_to_simplex(rows: Tensor) -> Tensor:
    """The nearest point of the probability simplex to each row ``[N, L]``.

    Example:

        >>> project_to_simplex(torch.tensor([[0.5, 0.5, 0.2], [9.0, 0.0, 0.0]]))
        tensor([[0.4333, 0.4333, 0.1333],
                [1.0000, 0.0000, 0.0000]])
    """
    # Relative to the largest, so that large logits do not cancel.
    rows = rows - rows.amax(1, keepdim=True)
    ordered = rows.sort(1, descending=True).values
    above = ordered.cumsum(1) - 1
    rank = torch.arange(1, rows.shape[1] + 1, dtype=rows.dtype, device=rows.device)
    kept = (ordered * rank > above).sum(1, keepdim=True)
    return (rows - above.gather(1, kept - 1) / kept).clamp_min(0)


def find_solver(owner: object, solver: str | Solver, damping: float) -> Solver:
    """The solver that a name stands for."""
    if isinstance(solver, Solver):
        if damping:
            fail(owner, f"Expected 'damping' with solver='mean_field' alone (got {solver})")
        return solver
    check_choice(owner, "solver", solver, ("mean_field", "frank_wolfe"))
    if solver == "mean_field":
        return MeanField(damping)
    return find_solver(owner, FrankWolfe(), damping)
