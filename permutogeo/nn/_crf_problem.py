"""A dense CRF on the points of one call, and what can be asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from permutogeo.nn.compatibility import Compatibility
from permutogeo.nn.crf_kernel import PairwiseOperator

# One kernel with what labels do to each other through it.
Pairwise = tuple[PairwiseOperator, Compatibility]


@dataclass(frozen=True, eq=False)
class CRFProblem:
    r"""The energy of a dense CRF over points,

    .. math::
        E(\mathbf{q}) = - \sum_i \mathbf{u}_i \cdot \mathbf{q}_i + \frac{1}{2} \sum_m w_m
        \sum_{ij} k_m(\mathbf{f}_i, \mathbf{f}_j) \, \mathbf{q}_j \mu_m \cdot \mathbf{q}_i

    from :meth:`DenseCRF.problem`. Sums over points are given for each graph of a batch.

    Args:
        unary: Logits :math:`\mathbf{u}`, ``[N, L]``.
        pairwise: The pairwise terms, for each step if they differ (loose), else one list for all.
        batch: Graph of each point.
    """

    unary: Tensor
    pairwise: Sequence[Sequence[Pairwise]]
    batch: Tensor | None = None

    def update(self, q: Tensor, step: int = 0) -> Tensor:
        r"""Minus the gradient of the energy, :math:`\mathbf{u} - \sum_m w_m (K_m Q) \mu_m`."""
        out = self.unary
        for operator, compatibility in self.terms(step):
            out = out + operator(q, compatibility.attraction)
        return out

    def energy(self, labels: Tensor, step: int = -1) -> Tensor:
        """The energy of a labeling ``[N]``, ``[B]``: minus the logarithm of its probability, up to
        a constant."""
        q = torch.nn.functional.one_hot(labels, self.unary.shape[1]).to(self.unary.dtype)
        return self._sum(self._energy(q, step))

    def free_energy(self, logits: Tensor, step: int = -1) -> Tensor:
        """The energy expected under independent marginals less their entropy, ``[B]``. Mean field
        looks for its minimum.
        """
        log_q = torch.log_softmax(logits, 1)
        q = log_q.exp()
        return self._sum((q * log_q).sum(1) + self._energy(q, step))

    def kl_divergence(self, logits: Tensor, log_partition: Tensor | float = 0.0) -> Tensor:
        """The divergence of independent marginals from the CRF's distribution, ``[B]``.

        Args:
            log_partition: Logarithm of the sum of ``exp(-energy)`` over all labelings, which nobody
                can compute for more than a few points. Without it the result lacks that constant,
                as does that of pydensecrf.
        """
        return self.free_energy(logits) + log_partition

    def terms(self, step: int) -> Sequence[Pairwise]:
        """The pairwise terms of a step."""
        return self.pairwise[0] if len(self.pairwise) == 1 else self.pairwise[step]

    def _energy(self, q: Tensor, step: int) -> Tensor:
        """Each point's share of the energy, ``[N]``."""
        return -0.5 * (q * (self.unary + self.update(q, step))).sum(1)

    def _sum(self, share: Tensor) -> Tensor:
        if self.batch is None:
            return share.sum(0, keepdim=True)
        graphs = int(self.batch.max()) + 1 if len(self.batch) else 0
        return share.new_zeros(graphs).index_add_(0, self.batch, share)
