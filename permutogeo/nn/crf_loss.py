"""A dense CRF as a loss, for training with few labels."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from torch.nn import Module, ModuleList

from permutogeo.checks import working_dtype
from permutogeo.lattice import Lattice
from permutogeo.nn import _crf_check as check
from permutogeo.nn._check import check_choice
from permutogeo.nn.crf_kernel import CRFKernel


class CRFLoss(Module):
    r"""The dense CRF regularized loss from the `"On Regularized Losses for Weakly-supervised CNN
    Segmentation" <https://arxiv.org/abs/1803.09569>`_ paper: what independent marginals cost under
    a Potts model, to be added to a loss on the few labels that there are.

    .. math::
        \ell = \frac{1}{N} \sum_m w_m \sum_{ij} k_m(\mathbf{f}_i, \mathbf{f}_j) \,
        \mathbf{q}_i \cdot (1 - \mathbf{q}_j)

    where :math:`\mathbf{q} = \mathrm{softmax}(\mathbf{x})`. Points with similar features should
    have the same label.

    Args:
        kernels: The pairwise kernels, :class:`GaussianKernel` or :class:`LearnedKernel`.
        normalize: How kernels are normalized, as in :class:`DenseCRF`.
        exclude_self: Leave out what a point costs with itself.
        reduction: ``"mean"`` over points, ``"sum"``, or ``"none"`` for each point's share.

    Shapes:
        - x: :math:`(N, L)` logits
        - features: one :math:`(N, d_m)` for each kernel
        - batch: :math:`(N)` int64
        - output: a number, or :math:`(N)`

    Example:

        >>> import torch
        >>> from permutogeo.nn import GaussianKernel
        >>> loss = CRFLoss([GaussianKernel(dim=2)])
        >>> x = torch.zeros(50, 3, requires_grad=True)
        >>> loss(x, [torch.rand(50, 2)]).backward()
    """

    def __init__(
        self,
        kernels: Sequence[CRFKernel],
        normalize: str | Sequence[str | None] | None = "symmetric",
        exclude_self: bool = False,
        reduction: str = "mean",
    ):
        super().__init__()
        check_choice(self, "reduction", reduction, ("mean", "sum", "none"))
        found = check.kernels(self, kernels)
        self.normalize = check.normalizations(self, normalize, len(found))
        self.kernels = ModuleList(found)
        self.exclude_self = exclude_self
        self.reduction = reduction

    def forward(
        self,
        x: Tensor,
        features: Sequence[Tensor | None],
        batch: Tensor | None = None,
        lattices: Sequence[Lattice] | None = None,
    ) -> Tensor:
        """The loss.

        Args:
            x: Logits of each label at each point.
            features: The coordinates of the points for each kernel; ``None`` where ``lattices``
                holds a lattice.
            batch: Graph of each point; graphs do not mix.
            lattices: ``Lattice.build(feature / sigma, batch)`` for each kernel.
        """
        points = check.inputs(self, "x", x, self.kernels, features, batch, lattices)
        q = x.to(working_dtype(x)).softmax(1)
        share = q.new_zeros(len(q))
        for kernel, normalize, (feature, lattice) in zip(
            self.kernels, self.normalize, points, strict=True
        ):
            assert isinstance(kernel, CRFKernel)
            lattice = kernel.lay(feature, batch, lattice)
            operator = kernel.operator(lattice, normalize, self.exclude_self, q.dtype)
            share = share + (q * operator(1 - q)).sum(1)
        share = share.to(x.dtype)
        if self.reduction == "none":
            return share
        return share.sum() if self.reduction == "sum" else share.sum() / max(1, len(q))
