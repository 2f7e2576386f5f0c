"""The dense CRF as a regularizing loss."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from torch.nn import Module, ModuleList

from permutogeo.checks import check_choice
from permutogeo.lattice import Lattice
from permutogeo.lattice.precision import working_dtype
from permutogeo.nn.crf.arguments import parse_kernels, parse_normalizations, parse_points
from permutogeo.nn.crf.kernels import CRFKernel


class CRFLoss(Module):
    r"""The dense CRF regularized loss from the `"On Regularized Losses for Weakly-supervised CNN
    Segmentation" <https://arxiv.org/abs/1803.09569>`_ paper: the pairwise energy of independent
    marginals under a Potts model, to be added to a loss on sparse labels.

    .. math::
        \ell = \frac{1}{N} \sum_m w_m \sum_{ij} k_m(\mathbf{f}_i, \mathbf{f}_j) \,
        \mathbf{q}_i \cdot (1 - \mathbf{q}_j)

    where :math:`\mathbf{q} = \mathrm{softmax}(\mathbf{x})`, :math:`k_m` are the kernels and
    :math:`w_m` their weights.

    Args:
        kernels: The pairwise kernels, :class:`GaussianKernel` or :class:`LearnedKernel`.
        normalize: Normalization of the kernels, as in :class:`DenseCRF`.
        exclude_self: If ``True``, terms with :math:`i = j` are left out.
        reduction: ``"mean"`` over points, ``"sum"``, or ``"none"`` for a loss for each point.

    Shapes:
        - x: :math:`(N, L)` logits
        - features: one :math:`(N, d_m)` for each kernel
        - batch: :math:`(N)` int64
        - output: a scalar, or :math:`(N)` with ``reduction="none"``

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
        found = parse_kernels(self, kernels)
        self.normalize = parse_normalizations(self, normalize, len(found))
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
        """Return the loss.

        Args:
            x: Logits of each label at each point.
            features: Features of the points for each kernel; may be ``None`` where ``lattices``
                holds a lattice.
            batch: Graph of each point. Points of different graphs do not interact.
            lattices: ``Lattice.build(feature / sigma, batch)`` for each kernel.
        """
        points = parse_points(self, "x", x, self.kernels, features, batch, lattices)
        q = x.to(working_dtype(x)).softmax(1)
        cost = q.new_zeros(q.shape[0])
        for kernel, normalize, (feature, lattice) in zip(
            self.kernels, self.normalize, points, strict=True
        ):
            assert isinstance(kernel, CRFKernel)
            lattice = kernel.build_lattice(feature, batch, lattice)
            operator = kernel.operator(lattice, normalize, self.exclude_self, q.dtype)
            cost = cost + (q * operator(1 - q)).sum(1)
        cost = cost.to(x.dtype)
        if self.reduction == "none":
            return cost
        return cost.sum() if self.reduction == "sum" else cost.sum() / max(1, q.shape[0])
