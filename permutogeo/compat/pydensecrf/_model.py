"""The CRF behind the classes, point-major: unary energies, pairwise terms, mean field."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from permutogeo import _warp
from permutogeo.compat.pydensecrf._embedding import lay_lattice
from permutogeo.compat.pydensecrf._parts import in_parts
from permutogeo.nn import Compatibility, GaussianKernel, _mean_field
from permutogeo.nn._crf_problem import CRFProblem, Pairwise
from permutogeo.nn.crf_kernel import PairwiseOperator

# What is taken for 0 where a logarithm is needed.
_LEAST_MARGINAL = 1e-20


class UnaryLogits:
    """Unary energies by points, each point's least energy taken off.

    Args:
        energy: :math:`(L, N)` float32.
    """

    def __init__(self, energy: np.ndarray):
        labels, points = energy.shape
        self.least = np.empty((points, 1), np.float32)
        self.logits = _warp.empty(points, labels, dtype=torch.float32, device=torch.device("cpu"))
        rows = self.logits.numpy()

        def turn(a: int, b: int) -> None:
            part = energy[:, a:b]
            least = part.min(0, initial=np.inf)
            with np.errstate(invalid="ignore"):  # refused below
                rows[a:b] = (least - part).T
            self.least[a:b, 0] = least

        in_parts(turn, points, labels)
        wrong = np.flatnonzero(~np.isfinite(self.least))
        if labels and len(wrong):
            raise ValueError(
                f"Expected unary energies without NaN, and at each point a finite least one "
                f"(got {self.least[wrong[0], 0]} at point {wrong[0]})"
            )


@dataclass
class Term:
    """A Gaussian kernel over features, and what labels do to each other through it.

    Args:
        feature: :math:`(d, N)` float32, divided by the bandwidths.
        compat: A number for the Potts model, a vector or a matrix.
        normalize: As for :class:`GaussianKernel`.
    """

    feature: np.ndarray
    compat: float | Tensor
    normalize: str | None
    operator: PairwiseOperator | None = None

    def lay(self) -> None:
        """Build the lattice, if there is none yet."""
        if self.operator is None:
            lattice = lay_lattice(self.feature)
            weight = 1.0 if isinstance(self.compat, Tensor) else self.compat
            kernel = GaussianKernel(lattice.dim, weight=weight)
            self.operator = kernel.operator(lattice, self.normalize)

    def pairwise(self, labels: int) -> Pairwise:
        """The laid kernel and the compatibility of so many labels."""
        assert self.operator is not None
        compat = self.compat if isinstance(self.compat, Tensor) else "potts"
        return self.operator, Compatibility(max(1, labels), compat)


class Model:
    """A CRF over points, to be asked for marginals ``[N, L]``.

    Args:
        points: Number of points.
        labels: Number of labels, unless unary energies say otherwise.
    """

    def __init__(self, points: int, labels: int):
        self.points, self._labels = points, labels
        self._unary: UnaryLogits | None = None
        self._terms: list[Term] = []
        self._problem: CRFProblem | None = None

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
        """Add a term. Lattices are built when they are needed, all at once."""
        self._terms.append(term)
        self._problem = None

    def problem(self) -> CRFProblem:
        """The energy, with unaries of 0 if there are none."""
        if self._problem is None:
            unary = torch.zeros(self.points, self.labels, dtype=torch.float32, device="cpu")
            if self._unary is not None:
                unary = self._unary.logits
            if len(self._terms) == 1:
                self._terms[0].lay()
            else:  # a lattice to a thread, which beats all threads on one after the other
                _warp.run([term.lay for term in self._terms])
            terms = [term.pairwise(self.labels) for term in self._terms]
            self._problem = CRFProblem(unary, [terms])
        return self._problem

    def marginals(self, steps: int) -> Tensor:
        """The marginals after so many steps of mean field."""
        problem = self.problem()
        if problem.unary.numel() and _mean_field.applies(problem):
            return _mean_field.solve(problem, max(0, steps), log=False)
        q = torch.softmax(problem.unary, 1)
        for _ in range(steps):
            self.step(q)
        return q

    def step(self, q: Tensor) -> Tensor:
        """One step of mean field in place; returns the logits."""
        logits = self.problem().update(q)
        torch.softmax(logits, 1, out=q)
        return logits

    def last_energy(self, q: Tensor) -> Tensor:
        """What the last term adds to the energies, 0 if there is none."""
        total = torch.zeros_like(q)
        for operator, compatibility in self.problem().terms(0)[-1:]:
            total -= operator(q, compatibility.attraction)
        return total

    def divergence(self, q: Tensor) -> float:
        """Minus the entropy plus the energies, each pair of points counted twice."""
        update = self.problem().update(q)
        sums: dict[int, float] = {}

        def part(a: int, b: int) -> None:
            share = q[a:b].clamp_min(_LEAST_MARGINAL).log_().sub_(update[a:b])
            if self._unary is not None:
                share += torch.from_numpy(self._unary.least[a:b])
            sums[a] = float(share.mul_(q[a:b]).sum(dtype=torch.float64))

        in_parts(part, *q.shape)
        return sum(sums[a] for a in sorted(sums))
