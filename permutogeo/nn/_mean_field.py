"""Mean field without gradients, in which marginals never leave the cache."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from permutogeo.nn._crf_problem import CRFProblem, Pairwise
from permutogeo.ops.exchange import Exchange

# Rows of more labels than this do not stay in the cache.
_MOST_LABELS = 64
# Most vertices for a point: past that, adding up at them costs more than is saved.
_MOST_VERTICES = 0.5


def applies(problem: CRFProblem) -> bool:
    """Whether :func:`solve` can do it, and faster."""
    unary = problem.unary
    if torch.compiler.is_compiling() or unary.device.type != "cpu" or not problem.pairwise[0]:
        return False
    if unary.dtype != torch.float32 or unary.shape[1] > _MOST_LABELS:
        return False
    return all(
        _fits(term, first, len(unary))
        for step in problem.pairwise
        for term, first in zip(step, problem.pairwise[0], strict=True)
    )


def _fits(term: Pairwise, first: Pairwise, points: int) -> bool:
    """Whether a term sends messages along the corners of the first step's, and few enough."""
    operator = term[0]
    return (
        operator.self_term is None
        and operator.source.vertex is first[0].source.vertex
        and operator.source.num_vertices <= _MOST_VERTICES * points
    )


def solve(problem: CRFProblem, num_steps: int, log: bool = True) -> Tensor:
    """The marginals, or their logarithms, after ``num_steps`` without damping, ``[N, L]``."""
    operators = [operator for operator, _ in problem.terms(0)]
    exchange = Exchange(
        problem.unary,
        [operator.source.vertex for operator in operators],
        [operator.source.weight for operator in operators],
        [operator.target.weight for operator in operators],
        [operator.source.num_vertices for operator in operators],
        problem.batch,
    )
    values: list[Tensor] = []
    for step in range(num_steps):
        values = exchange.step(values, [_at_vertices(term) for term in problem.terms(step)])
    return exchange.marginals(values, log)


def _at_vertices(term: Pairwise) -> Callable[[Tensor], Tensor]:
    operator, compatibility = term

    def apply(values: Tensor) -> Tensor:
        values = operator.filter(values)
        if compatibility.is_identity:  # also on the columns that fill up vectors
            return values
        return compatibility.attraction(values[:, : compatibility.num_classes])

    return apply
