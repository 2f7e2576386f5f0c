"""Preconditioned conjugate gradients over the vertices of a lattice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

# Rows of a partial sum: sums have a fixed order, whatever the number of threads.
_BLOCK = 1024


@dataclass(frozen=True)
class SolveReport:
    """Convergence of an iterative solver.

    Args:
        iterations: Number of iterations.
        residual: Norm of the residual over the norm of the right-hand side, both in the norm of
            the preconditioner; the largest of all graphs and channels.
        converged: Whether the residual is within the tolerance.
    """

    iterations: int
    residual: float
    converged: bool

    def __str__(self) -> str:
        state = "converged" if self.converged else "did not converge"
        return f"{state}: relative residual {self.residual:.3g} after {self.iterations} iterations"


class GraphSums:
    """Sums over the vertices of each graph, in a fixed order.

    Args:
        counts: Vertices of each graph, ``None`` for one graph.
    """

    def __init__(self, counts: list[int] | None):
        self.counts = None if counts is None or len(counts) == 1 else counts

    def dot(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the sum of products over the vertices of each graph, ``[G, C]``."""
        product = a * b
        if self.counts is None:
            return _ordered_sum(product)
        return torch.cat([_ordered_sum(part) for part in product.split(self.counts)])

    def expand(self, x: Tensor) -> Tensor:
        """Return the row of the graph for each vertex, from ``[G, C]``."""
        if self.counts is None:
            return x
        return x.repeat_interleave(torch.tensor(self.counts, device=x.device), 0)


def _ordered_sum(x: Tensor) -> Tensor:
    """Return the sum of the rows, ``[1, C]``."""
    blocks = len(x) // _BLOCK
    whole = blocks * _BLOCK
    parts = x[:whole].view(blocks, _BLOCK, x.shape[1]).sum(1)
    return torch.cat([parts, x[whole:].sum(0, keepdim=True)]).sum(0, keepdim=True)


def conjugate_gradient(
    apply: Callable[[Tensor], Tensor],
    inverse_diagonal: Tensor,
    right: Tensor,
    start: Tensor,
    sums: GraphSums,
    tolerance: float,
    max_iterations: int,
) -> tuple[Tensor, SolveReport]:
    """Solve a symmetric positive (semi)definite system by conjugate gradients with the Jacobi
    preconditioner, for all channels and graphs at once.

    Args:
        apply: The matrix, ``[M, C]`` to ``[M, C]``.
        inverse_diagonal: The preconditioner, ``[M, 1]`` or ``[M, C]``; rows of 0 keep ``start``.
        right: The right-hand side, ``[M, C]``.
        start: The initial guess, ``[M, C]``.
        sums: Sums over graphs: each graph has its own step sizes.
        tolerance: Relative residual at which to stop.
        max_iterations: Most iterations.
    """
    y = start.clone()
    norm = sums.dot(right, right * inverse_diagonal)
    r = right - apply(y)
    z = r * inverse_diagonal
    p, rz = z.clone(), sums.dot(r, z)
    limit = tolerance**2 * norm
    iterations = 0
    while iterations < max_iterations and bool((rz > limit).any()):
        q = apply(p)
        curvature = sums.dot(p, q)
        # Converged channels stay: their direction is 0 up to rounding.
        step = torch.where((rz > limit) & (curvature > 0), rz / curvature, 0.0)
        step = sums.expand(step)
        y.addcmul_(p, step)
        r.addcmul_(q, step, value=-1)
        torch.mul(r, inverse_diagonal, out=z)
        before, rz = rz, sums.dot(r, z)
        p.mul_(sums.expand(torch.where(before > 0, rz / before, 0.0))).add_(z)
        iterations += 1
    share = torch.where(norm > 0, rz / norm, (rz > 0).to(rz.dtype))
    residual = float(share.max().sqrt()) if share.numel() else 0.0
    return y, SolveReport(iterations, residual, not bool((rz > limit).any()))
