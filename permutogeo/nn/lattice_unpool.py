"""From the lattice of half the resolution back."""

from __future__ import annotations

import torch
from torch import Tensor

from permutogeo.checks import working_dtype
from permutogeo.incidence import Incidence
from permutogeo.lattice import Lattice
from permutogeo.nn._check import (
    check_choice,
    check_count,
    check_lattice,
    check_parameters,
    check_values,
)
from permutogeo.nn._filter_bank import FilterBankLayer
from permutogeo.nn._stride import Stride, coarsened, convolve


class LatticeUnpool(FilterBankLayer):
    r"""The way back from the lattice of half the resolution, as in the `"LatticeNet: Fast Point
    Cloud Segmentation Using Permutohedral Lattices" <https://arxiv.org/abs/1912.05905>`_ paper.

    .. math::
        \mathbf{v}^{\prime}_j = \sum_{2i + k = j} \mathbf{v}_i \, \mathbf{\Theta}_k + \mathbf{b}

    the transpose of the learned :class:`LatticePool`, for ``mode="learned"``. ``"slice"``
    interpolates: it is the transpose of the pooling with ``aggr="sum"``.

    Args:
        in_channels: Size of each input sample, or ``-1`` to derive it from the first call.
        out_channels: Size of each output sample without the skip, ``in_channels`` if nothing is
            learned.
        dim: Dimension of the lattice.
        mode: ``"slice"`` or ``"learned"``.
        bias: If ``False``, a learned unpooling has no additive bias.

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
        check_count(self, "dim", dim)
        check_choice(self, "mode", mode, ("slice", "learned"))
        learned = mode == "learned"
        taps = 2 ** (dim + 1) - 1 if learned else 0
        super().__init__(in_channels, out_channels, dim, taps, 1, bias and learned)
        self.mode = mode
        self.reset_parameters()

    @property
    def _taps_read(self) -> int:
        return 2  # a fine vertex lies between two coarse ones

    def forward(
        self,
        values: Tensor,
        lattice: Lattice,
        coarse: Lattice,
        at: Incidence,
        skip: Tensor | None = None,
    ) -> Tensor:
        """Take values back to the fine lattice.

        Args:
            values: Values at the vertices of ``coarse``.
            lattice: The fine lattice.
            coarse: The coarse lattice, from :class:`LatticePool` or ``lattice.coarsen()``.
            at: Where the vertices of ``lattice`` lie on ``coarse``.
            skip: Values at the vertices of ``lattice``, to set beside the result.
        """
        check_lattice(self, "lattice", lattice)
        coarse, at = coarsened(self, lattice, coarse, at)
        device, rows = coarse.device, coarse.num_vertices
        check_values(self, "values", values, self.in_channels, device, rows, "vertices", "coarse")
        if skip is not None:
            check_values(self, "skip", skip, -1, device, lattice.num_vertices, "vertices")
        self.initialize_parameters(values)
        check_parameters(self, values, "'values'")
        working = working_dtype(values)
        wide = values.to(working)
        if self.mode == "learned":
            out = convolve(self, wide, Stride.between(lattice, coarse, at), back=True)
        else:
            out = self.slice(coarse, wide, at, explained=True)
        if self.bias is not None:
            out = out + self.bias
        out = out.to(values.dtype)
        return out if skip is None else torch.cat([out, skip.to(out.dtype)], 1)

    def __repr__(self) -> str:
        return self._named(mode=self.mode)
