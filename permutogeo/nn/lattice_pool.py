"""Pooling onto the lattice of half the resolution."""

from __future__ import annotations

import torch
from torch import Tensor

from permutogeo.checks import check_choice, check_integer
from permutogeo.lattice import Incidence, Lattice
from permutogeo.nn.filter_bank import FilterBankLayer
from permutogeo.nn.stride import StrideEdges, resolve_coarse, strided_convolve
from permutogeo.ops import segment_max


class LatticePool(FilterBankLayer):
    r"""Pooling onto the lattice of half the resolution, as in the `"LatticeNet: Fast Point Cloud
    Segmentation Using Permutohedral Lattices" <https://arxiv.org/abs/1912.05905>`_ paper.

    .. math::
        \mathbf{v}^{\prime}_i = \sum_{k} \mathbf{v}_{2i + k} \, \mathbf{\Theta}_k + \mathbf{b}

    where vertex :math:`2i` of the fine lattice lies at vertex :math:`i` of the coarse one and
    :math:`k` runs over the stencil of radius 1, for ``aggr="learned"``. ``"max"`` takes the maximum
    over the same vertices; for ``"sum"`` and ``"mean"``, a vertex half way between two coarse ones
    contributes one half to each. A coarse vertex without fine vertices is 0.

    Args:
        in_channels: Size of each input sample, or ``-1`` to infer it in the first call.
        out_channels: Size of each output sample; must equal ``in_channels`` unless
            ``aggr="learned"``.
        dim: Feature dimension :math:`d` of the lattice.
        aggr: ``"max"``, ``"mean"``, ``"sum"`` or ``"learned"``.
        bias: If ``False``, learned pooling does not learn an additive bias.

    Shapes:
        - values: :math:`(M, C_{in})`
        - output: :math:`(M', C_{out})`, the coarse lattice, and the fine vertices' incidence on it

    Example:

        >>> from permutogeo.nn import LatticeUnpool
        >>> lattice = Lattice.build(torch.rand(100, 3) * 8)
        >>> pool, unpool = LatticePool(4, 4, dim=3), LatticeUnpool(4, 4, dim=3)
        >>> values, coarse, at = pool(lattice.splat(torch.rand(100, 4)), lattice)
        >>> unpool(values, lattice, coarse, at).shape[0] == lattice.num_vertices
        True
    """

    def __init__(
        self, in_channels: int, out_channels: int, dim: int, aggr: str = "max", bias: bool = True
    ):
        check_integer(self, "dim", dim)
        check_choice(self, "aggr", aggr, ("max", "mean", "sum", "learned"))
        learned = aggr == "learned"
        taps = 2 ** (dim + 1) - 1 if learned else 0
        reduce = "max" if aggr == "max" else "sum"
        super().__init__(in_channels, out_channels, dim, taps, 1, bias and learned, aggr=reduce)
        self.mode = aggr
        self.reset_parameters()

    def forward(
        self,
        values: Tensor,
        lattice: Lattice,
        coarse: Lattice | None = None,
        at: Incidence | None = None,
    ) -> tuple[Tensor, Lattice, Incidence]:
        """Pool values at vertices.

        Args:
            values: Values at the vertices of ``lattice``.
            lattice: The fine lattice.
            coarse: The coarse lattice, if ``coarse, at = lattice.coarsen()`` was computed before.
            at: The incidence of the vertices of ``lattice`` on ``coarse``.

        Returns:
            The values at the coarse vertices, ``coarse`` and ``at``.
        """
        wide = self.receive(values, lattice)
        coarse, at = resolve_coarse(self, lattice, coarse, at)
        if self.mode == "learned":
            edges = StrideEdges.between(lattice, coarse, at)
            out = strided_convolve(self, at.pull(wide), edges)
        elif self.mode == "max":
            out = self._max_pool(at.pull(wide), StrideEdges.between(lattice, coarse, at))
        else:
            out = self.splat(coarse, wide, at)
            if self.mode == "mean":
                mass = coarse.splat(torch.ones_like(wide[:, :1]), at)
                out = out / torch.where(mass > 0, mass, 1.0)
        if self.bias is not None:
            out = out + self.bias
        return out if out.dtype == values.dtype else out.to(values.dtype), coarse, at

    def _max_pool(self, values: Tensor, stride: StrideEdges) -> Tensor:
        if not self.fused:
            edge_index, size = stride.edges()[0], (len(values), stride.num_coarse)
            return self.pass_messages(edge_index, size, values, explained=True)
        return segment_max(values, *stride.by_coarse())

    def __repr__(self) -> str:
        return self._format_repr(aggr=self.mode)
