"""The CRF behind the public classes: unary energies, pairwise terms and mean field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from permutogeo.compat.pydensecrf._embedding import build_lattice, run_in_chunks
from permutogeo.nn import Compatibility, GaussianKernel
from permutogeo.nn.crf.kernels import PairwiseOperator
from permutogeo.nn.crf.problem import CRFProblem, Pairwise
from permutogeo.nn.crf.solvers import is_fusable, solve_fused
from permutogeo.runtime import memory, threads

# Lower bound of marginals in logarithms.
_MIN_MARGINAL = 1e-20


class UnaryLogits:
    """Unary logits ``[N, L]``: negative energies plus the least energy of each point.

    Args:
        energy: :math:`(L, N)` float32.
    """

    def __init__(self, energy: np.ndarray):
        labels, points = energy.shape
        self.least = np.empty((points, 1), np.float32)
        self.logits = memory.empty(points, labels, dtype=torch.float32, device=torch.device("cpu"))
        rows = self.logits.numpy()

        def transpose(a: int, b: int) -> None:
            part = energy[:, a:b]
            least = part.min(0, initial=np.inf)
            with np.errstate(invalid="ignore"):  # refused below
                rows[a:b] = (least - part).T
            self.least[a:b, 0] = least

        run_in_chunks(transpose, points, labels)
        wrong = np.flatnonzero(~np.isfinite(self.least))
        if labels and len(wrong):
            raise ValueError(
                f"Expected unary energies without NaN, and at each point a finite least one "
                f"(got {self.least[wrong[0], 0]} at point {wrong[0]})"
            )


@dataclass
class Term:
    """A pairwise term: a Gaussian kernel over features and a label compatibility.

    Args:
        feature: :math:`(d, N)` float32, divided by the bandwidths.
        compat: A number for the Potts model, a vector or a matrix.
        normalize: Normalization of the kernel, as in :class:`permutogeo.nn.DenseCRF`.
    """

    feature: np.ndarray
    compat: float | Tensor
    normalize: str | None
    operator: PairwiseOperator | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Operators hold functions and are built again on first use.
        return {**self.__dict__, "operator": None}

    def build(self) -> None:
        """Build the lattice and the operator, unless built before."""
        if self.operator is None:
            lattice = build_lattice(self.feature)
            weight = 1.0 if isinstance(self.compat, Tensor) else self.compat
            kernel = GaussianKernel(lattice.dim, weight=weight)
            self.operator = kernel.operator(lattice, self.normalize)

    def pairwise(self, labels: int) -> Pairwise:
        """Return the operator and the compatibility of ``labels`` labels."""
        assert self.operator is not None
        compat = self.compat if isinstance(self.compat, Tensor) else "potts"
        return self.operator, Compatibility(max(1, labels), compat)


class Model:
    """A CRF over points, with marginals ``[N, L]``.

    Args:
        points: Number of points.
        labels: Number of labels while there are no unary energies.
    """

    def __init__(self, points: int, labels: int):
        self.points, self._labels = points, labels
        self._unary: UnaryLogits | None = None
        self._terms: list[Term] = []
        self._problem: CRFProblem | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_problem": None}

    @property
    def unary(self) -> UnaryLogits | None:
        return self._unary

    @unary.setter
    def unary(self, unary: UnaryLogits | None) -> None:
        self._unary, self._problem = unary, None

    @property
    def labels(self) -> int:
        return self._labels if self._unary is None else self._unary.logits.shape[1]

    def add(self, term: Term) -> None:
        """Add a pairwise term; its lattice is built on first use."""
        self._terms.append(term)
        self._problem = None

    def problem(self) -> CRFProblem:
        """Return the energy; missing unaries are 0."""
        if self._problem is None:
            if self._unary is None:
                unary = torch.from_numpy(np.zeros((self.points, self.labels), np.float32))
            else:
                unary = self._unary.logits
            if len(self._terms) == 1:
                self._terms[0].build()
            else:  # one lattice on each thread beats all threads on each lattice
                threads.run_without_grad([term.build for term in self._terms])
            terms = [term.pairwise(self.labels) for term in self._terms]
            self._problem = CRFProblem(unary, [terms])
        return self._problem

    def marginals(self, steps: int) -> Tensor:
        """Return the marginals after a number of mean-field steps."""
        problem = self.problem()
        if problem.unary.numel() and is_fusable(problem):
            return solve_fused(problem, max(0, steps), log=False)
        q = torch.softmax(problem.unary, 1)
        for _ in range(steps):
            self.step(q)
        return q

    def step(self, q: Tensor) -> Tensor:
        """Run one mean-field step on ``q`` in place and return the logits."""
        logits = self.problem().update(q)
        torch.softmax(logits, 1, out=q)
        return logits

    def last_energy(self, q: Tensor) -> Tensor:
        """Return the energies of the last pairwise term, 0 if there is none."""
        total = torch.zeros_like(q)
        for operator, compatibility in self.problem().terms(0)[-1:]:
            total -= operator(q, compatibility.attraction)
        return total

    def divergence(self, q: Tensor) -> float:
        """Return negative entropy plus energies, with each pair of points counted twice."""
        update = self.problem().update(q)
        sums: dict[int, float] = {}

        def part(a: int, b: int) -> None:
            share = q[a:b].clamp_min(_MIN_MARGINAL).log_().sub_(update[a:b])
            if self._unary is not None:
                share += torch.from_numpy(self._unary.least[a:b])
            sums[a] = float(share.mul_(q[a:b]).sum(dtype=torch.float64))

        run_in_chunks(part, *q.shape)
        return sum(sums[a] for a in sorted(sums))
