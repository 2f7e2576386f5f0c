"""The energy of a dense CRF over given points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from permutogeo.lattice import Incidence
from permutogeo.nn.crf.compatibility import Compatibility
from permutogeo.nn.crf.kernels import PairwiseOperator

# A kernel over the points, and its label compatibility.
Pairwise = tuple[PairwiseOperator, Compatibility]


@dataclass(frozen=True, eq=False)
class CRFProblem:
    r"""The energy of a dense CRF over points,

    .. math::
        E(\mathbf{q}) = - \sum_i \mathbf{u}_i \cdot \mathbf{q}_i + \frac{1}{2} \sum_m w_m
        \sum_{ij} k_m(\mathbf{f}_i, \mathbf{f}_j) \, \mathbf{q}_j \mu_m \cdot \mathbf{q}_i

    where :math:`\mathbf{u}` are the unary logits, as returned by :meth:`DenseCRF.problem`. Energies
    are computed for each graph of a batch.

    Args:
        unary: Logits :math:`\mathbf{u}`, ``[N, L]``.
        pairwise: The pairwise terms: a list for each step of a loose CRF, else one list.
        batch: Graph of each point.
    """

    unary: Tensor
    pairwise: Sequence[Sequence[Pairwise]]
    batch: Tensor | None = None

    @property
    def incidence(self) -> Incidence:
        """The incidence of the points on the first lattice; without kernels, that of no points."""
        for operator, _ in self.pairwise[0]:
            return operator.points
        nothing = self.unary.new_empty(0, 1)
        return Incidence(nothing.to(torch.int32), nothing, 0, complete=True)

    def update(self, q: Tensor, step: int = 0) -> Tensor:
        r"""Return the negative gradient of the energy, :math:`\mathbf{u} - \sum_m w_m (K_m Q)
        \mu_m`."""
        out = self.unary
        for operator, compatibility in self.terms(step):
            out = out + operator(q, compatibility.attraction)
        return out

    def energy(self, labels: Tensor, step: int = -1) -> Tensor:
        """Return the energy ``[B]`` of a labeling ``[N]``: its negative log-probability up to a
        constant."""
        q = torch.nn.functional.one_hot(labels, self.unary.shape[1]).to(self.unary.dtype)
        return self._sum(self._energy(q, step))

    def free_energy(self, logits: Tensor, step: int = -1) -> Tensor:
        """Return the free energy ``[B]`` of independent marginals: expected energy minus entropy,
        which mean field minimizes."""
        log_q = torch.log_softmax(logits, 1)
        q = log_q.exp()
        return self._sum((q * log_q).sum(1) + self._energy(q, step))

    def kl_divergence(self, logits: Tensor, log_partition: Tensor | float = 0.0) -> Tensor:
        """Return the KL divergence ``[B]`` of independent marginals from the CRF's distribution.

        Args:
            log_partition: Logarithm of the partition function, the sum of ``exp(-energy)`` over all
                labelings. It is intractable for more than a few points; if left at 0, the result
                lacks this constant, as in pydensecrf.
        """
        return self.free_energy(logits) + log_partition

    def terms(self, step: int) -> Sequence[Pairwise]:
        """Return the pairwise terms of a step."""
        return self.pairwise[0] if len(self.pairwise) == 1 else self.pairwise[step]

    def _energy(self, q: Tensor, step: int) -> Tensor:
        """Return the energy of each point, ``[N]``; pairs are split evenly."""
        return -0.5 * (q * (self.unary + self.update(q, step))).sum(1)

    def _sum(self, share: Tensor) -> Tensor:
        if self.batch is None:
            return self.incidence.total(share.sum(0, keepdim=True))
        graphs = self.batch.max() + 1 if len(self.batch) else self.batch.new_zeros(())
        sums = share.new_zeros(int(self.incidence.largest(graphs)))
        return self.incidence.total(sums.index_add(0, self.batch, share))
