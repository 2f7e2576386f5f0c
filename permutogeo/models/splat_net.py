"""SPLATNet."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import BatchNorm, Linear

from permutogeo.checks import fail
from permutogeo.lattice import Lattice
from permutogeo.models.base import PointModel
from permutogeo.nn import BilateralConv


class SplatNet(PointModel):
    r"""A network after the `"SPLATNet: Sparse Lattice Networks for Point Cloud Processing"
    <https://arxiv.org/abs/1802.08275>`_ paper: bilateral convolutions on lattices of several
    scales, concatenated, with linear layers on the points in between.

    .. math::
        \mathbf{X}^{(l + 1)} = \textrm{ReLU} \left( \textrm{BatchNorm} \left( \left[
        \mathbf{X}^{(l)}, \, \textrm{BilateralConv}_{s_1}(\mathbf{X}^{(l)}), \ldots,
        \textrm{BilateralConv}_{s_S}(\mathbf{X}^{(l)}) \right] \mathbf{W}^{(l)} \right) \right)

    where the scale :math:`s` multiplies the features, so that a small :math:`s` means a large
    neighborhood. A linear layer on the concatenated outputs of all layers predicts at each point.

    Args:
        in_channels: Size of each input sample, or ``-1`` to infer it in the first call.
        hidden_channels: Size of each hidden sample.
        out_channels: Size of each output sample.
        dim: Feature dimension :math:`d`.
        num_layers: Number of layers.
        scales: Factors on the features, one lattice for each.
        radius: Stencil radius.
        normalize: Normalization, see :class:`permutogeo.nn.BilateralConv`.
        init: Initialization, see :class:`permutogeo.nn.BilateralConv`.
        dropout: Dropout probability before the prediction.

    Shapes:
        - x: :math:`(N, C_{in})`
        - feature: :math:`(N, d)`
        - batch: :math:`(N)` int64
        - output: :math:`(N, C_{out})`

    Example:

        >>> model = SplatNet(3, 16, 4, dim=3, scales=(1.0, 0.5))
        >>> model(torch.rand(100, 3), torch.rand(100, 3) * 8).shape
        torch.Size([100, 4])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        dim: int,
        num_layers: int = 2,
        scales: Sequence[float] = (1.0, 0.5, 0.25),
        radius: int = 1,
        normalize: str | None = "after",
        init: str = "gaussian",
        dropout: float = 0.0,
    ):
        super().__init__(in_channels, hidden_channels, out_channels, dim, num_layers)
        if not scales or not all(0 < scale < float("inf") for scale in scales):
            fail(self, f"Expected 'scales' of positive numbers (got {scales!r})")
        self.scales = tuple(float(scale) for scale in scales)
        self.dropout = dropout
        count, width = len(self.scales), hidden_channels
        self.lift = Linear(in_channels, width, bias=False)
        self.convs = torch.nn.ModuleList(
            BilateralConv(width, width, dim, radius, normalize=normalize, init=init)
            for _ in range(num_layers * count)
        )
        self.lins = torch.nn.ModuleList(
            Linear((1 + count) * width, width, bias=False) for _ in range(num_layers)
        )
        self.norms = torch.nn.ModuleList(
            BatchNorm(width, allow_single_element=True) for _ in range(num_layers + 1)
        )
        self.predict = Linear((num_layers + 1) * width, out_channels)
        self.reset_parameters()

    def forward(
        self,
        x: Tensor,
        feature: Tensor | None,
        batch: Tensor | None = None,
        lattices: Sequence[Lattice] | None = None,
    ) -> Tensor:
        """Predict at each point.

        Args:
            x: Values at the points.
            feature: Features of the points, divided by their bandwidths.
            batch: Graph of each point. Points of different graphs do not interact.
            lattices: ``Lattice.build(feature * scale, batch)`` for each scale, if they were built
                before, or :class:`permutogeo.distributed.ShardedLattice`.
        """
        if lattices is not None and len(lattices) != len(self.scales):
            fail(
                self,
                f"Expected {len(self.scales)} 'lattices', one for each scale (got {len(lattices)})",
            )
        given: Sequence[Lattice | None] = lattices or [None] * len(self.scales)
        built = [
            self.build_lattice(x, feature, batch, partial(torch.mul, other=scale), lattice)
            for scale, lattice in zip(self.scales, given, strict=True)
        ]
        x = self.norms[0](self.lift(x)).relu()
        outs = [x]
        for i, lin in enumerate(self.lins):
            convs = self.convs[i * len(built) :]
            sides = [
                conv(x, None, None, lattice) for conv, lattice in zip(convs, built, strict=False)
            ]
            x = self.norms[i + 1](lin(torch.cat([x, *sides], 1))).relu()
            outs.append(x)
        x = torch.nn.functional.dropout(torch.cat(outs, 1), self.dropout, self.training)
        return self.predict(x)

    def _options(self) -> dict[str, Any]:
        return {"scales": self.scales}
