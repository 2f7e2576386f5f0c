"""The convolution on lattice vertices."""

from __future__ import annotations

from torch import Tensor

from permutogeo.lattice import Lattice
from permutogeo.nn.filter_bank import ConvolutionLayer


class LatticeConv(ConvolutionLayer):
    r"""The convolution on the vertices of a lattice from the `"Learning Sparse High Dimensional
    Filters: Image Filtering, Dense CRFs and Bilateral Neural Networks"
    <https://arxiv.org/abs/1503.04949>`_ paper, without splat and slice.

    .. math::
        \mathbf{v}^{\prime}_i = \sum_{k} \mathbf{v}_{i + k} \, \mathbf{\Theta}_k + \mathbf{b}

    where :math:`k` runs over a stencil of neighbors, and absent vertices count as zero. The
    convolution of stride 2 is :class:`LatticePool` with ``aggr="learned"``, which also returns the
    coarse lattice; its transpose is :class:`LatticeUnpool` with ``mode="learned"``.

    Args:
        in_channels: Size of each input sample, or ``-1`` to infer it in the first call.
        out_channels: Size of each output sample.
        dim: Feature dimension :math:`d` of the lattice.
        radius: Stencil radius :math:`s`, for :math:`K = (s + 1)^{d + 1} - s^{d + 1}` taps.
        groups: Number of blocked connections from input to output channels.
        dilation: Factor on the offsets of the stencil.
        bias: If ``False``, the layer does not learn an additive bias.
        shared: If ``True``, all channels share one scalar filter; ``out_channels`` must equal
            ``in_channels``.
        stencil: ``"full"``, or ``"axis"`` for the neighbors along the lattice axes only.
        init: ``"kaiming"`` or ``"gaussian"``, as in :class:`BilateralConv`.
        residual_to_gaussian: If ``True``, the filter is learned as a difference from the Gaussian.

    Shapes:
        - values: :math:`(M, C_{in})`
        - output: :math:`(M, C_{out})`

    Example:

        >>> import torch
        >>> lattice = Lattice.build(torch.rand(100, 3) * 4)
        >>> values = lattice.splat(torch.rand(100, 8))
        >>> LatticeConv(8, 16, dim=3)(values, lattice).shape[1]
        16
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        dim: int,
        radius: int = 1,
        groups: int = 1,
        dilation: int = 1,
        bias: bool = True,
        shared: bool = False,
        stencil: str = "full",
        init: str = "kaiming",
        residual_to_gaussian: bool = False,
    ):
        super().__init__(
            in_channels,
            out_channels,
            dim,
            radius,
            groups,
            dilation,
            bias,
            shared,
            stencil,
            init,
            residual_to_gaussian,
        )
        self.reset_parameters()

    def forward(self, values: Tensor, lattice: Lattice) -> Tensor:
        """Filter values at vertices.

        Args:
            values: Values at the vertices of ``lattice``.
            lattice: The lattice.
        """
        out = self.convolve(lattice, self.receive(values, lattice), explained=True)
        if self.bias is not None:
            out = out + self.bias
        return out if out.dtype == values.dtype else out.to(values.dtype)

    def __repr__(self) -> str:
        return self._format_repr(**self._options())
