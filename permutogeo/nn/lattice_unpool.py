"""Unpooling from the lattice of half the resolution."""

from __future__ import annotations

import torch
from torch import Tensor

from permutogeo.checks import check_choice, check_integer, check_matrix, check_parameters
from permutogeo.lattice import Incidence, Lattice
from permutogeo.lattice.points import check_lattice
from permutogeo.lattice.precision import widened
from permutogeo.nn.filter_bank import FilterBankLayer
from permutogeo.nn.stride import StrideEdges, resolve_coarse, strided_convolve


class LatticeUnpool(FilterBankLayer):
    r"""Unpooling from the lattice of half the resolution, as in the `"LatticeNet: Fast Point Cloud
    Segmentation Using Permutohedral Lattices" <https://arxiv.org/abs/1912.05905>`_ paper.

    .. math::
        \mathbf{v}^{\prime}_j = \sum_{2i + k = j} \mathbf{v}_i \, \mathbf{\Theta}_k + \mathbf{b}

    where vertex :math:`2i` of the fine lattice lies at vertex :math:`i` of the coarse one, for
    ``mode="learned"``, the transpose of learned :class:`LatticePool`. ``"slice"`` interpolates
    linearly, the transpose of :class:`LatticePool` with ``aggr="sum"``.

    Args:
        in_channels: Size of each input sample, or ``-1`` to infer it in the first call.
        out_channels: Size of each output sample without the skip; must equal ``in_channels`` unless
            ``mode="learned"``.
        dim: Feature dimension :math:`d` of the lattice.
        mode: ``"slice"`` or ``"learned"``.
        bias: If ``False``, learned unpooling does not learn an additive bias.

    Shapes:
        - values: :math:`(M', C_{in})`
        - skip: :math:`(M, C_{skip})`
        - output: :math:`(M, C_{out} + C_{skip})`

    Example:

        >>> lattice = Lattice.build(torch.rand(100, 3) * 8)
        >>> coarse, at = lattice.coarsen()
        >>> values, skip = coarse.splat(torch.rand(100, 4)), lattice.splat(torch.rand(100, 2))
        >>> LatticeUnpool(4, 4, dim=3)(values, lattice, coarse, at, skip).shape[1]
        6
    """

    def __init__(
        self, in_channels: int, out_channels: int, dim: int, mode: str = "slice", bias: bool = True
    ):
        check_integer(self, "dim", dim)
        check_choice(self, "mode", mode, ("slice", "learned"))
        learned = mode == "learned"
        taps = 2 ** (dim + 1) - 1 if learned else 0
        super().__init__(in_channels, out_channels, dim, taps, 1, bias and learned)
        self.mode = mode
        self.reset_parameters()

    @property
    def _fan_taps(self) -> int:
        return 2  # a fine vertex lies between two coarse ones

    def forward(
        self,
        values: Tensor,
        lattice: Lattice,
        coarse: Lattice,
        at: Incidence,
        skip: Tensor | None = None,
    ) -> Tensor:
        """Unpool values at coarse vertices.

        Args:
            values: Values at the vertices of ``coarse``.
            lattice: The fine lattice.
            coarse: The coarse lattice, from :class:`LatticePool` or ``lattice.coarsen()``.
            at: The incidence of the vertices of ``lattice`` on ``coarse``.
            skip: Values at the vertices of ``lattice``, concatenated to the output.
        """
        check_lattice(self, "lattice", lattice)
        coarse, at = resolve_coarse(self, lattice, coarse, at)
        check_matrix(
            self,
            "values",
            values,
            device=coarse.device,
            rows=coarse.num_vertices,
            channels=self.in_channels,
            of="vertices of 'coarse'",
        )
        if skip is not None:
            check_matrix(
                self,
                "skip",
                skip,
                device=coarse.device,
                rows=lattice.num_vertices,
                of="vertices of 'lattice'",
            )
        self.initialize_parameters(values)
        check_parameters(self, values, "'values'")
        wide = widened(values)
        if self.mode == "learned":
            edges = StrideEdges.between(lattice, coarse, at, transpose=True)
            out = strided_convolve(self, at.spread(wide), edges, transpose=True)
        else:
            out = self.slice(coarse, wide, at, explained=True)
        if self.bias is not None:
            out = out + self.bias
        if out.dtype != values.dtype:
            out = out.to(values.dtype)
        if skip is None:
            return out
        return torch.cat([out, skip if skip.dtype == out.dtype else skip.to(out.dtype)], 1)

    def __repr__(self) -> str:
        return self._format_repr(mode=self.mode)
