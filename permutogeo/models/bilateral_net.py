"""A stack of bilateral convolutions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import BatchNorm, Linear

from permutogeo.models._model import PointModel
from permutogeo.nn import BilateralConv


class BilateralNet(PointModel):
    r"""The bilateral neural network from the `"Learning Sparse High Dimensional Filters: Image
    Filtering, Dense CRFs and Bilateral Neural Networks" <https://arxiv.org/abs/1503.04949>`_ paper:
    a stack of bilateral convolutions that share one lattice, for a prediction at each point.

    .. math::
        \mathbf{X}^{(l + 1)} = \textrm{ReLU} \left( \textrm{BatchNorm} \left(
        \textrm{BilateralConv}(\mathbf{X}^{(l)}) + \mathbf{X}^{(l)} \mathbf{W}^{(l)} \right) \right)

    The linear term keeps what is a point's own, which the way over the lattice would smooth. A
    linear layer on the outputs of all layers predicts.

    Args:
        in_channels: Size of each input sample, or ``-1`` to derive it from the first call.
        hidden_channels: Size of each hidden sample.
        out_channels: Size of each output sample.
        dim: Number of features of a point.
        num_layers: Number of bilateral convolutions.
        radius: Size of their neighborhoods.
        normalize: Their normalization, see :class:`permutogeo.nn.BilateralConv`.
        init: How their filters start.
        dropout: Probability to drop a hidden value before the prediction.

    Shapes:
        - x: :math:`(N, C_{in})`
        - feature: :math:`(N, d)`
        - batch: :math:`(N)` int64
        - output: :math:`(N, C_{out})`

    Example:

        >>> model = BilateralNet(3, 16, 4, dim=5, num_layers=2)
        >>> model(torch.rand(100, 3), torch.rand(100, 5) * 4).shape
        torch.Size([100, 4])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        dim: int,
        num_layers: int = 3,
        radius: int = 1,
        normalize: str | None = "after",
        init: str = "gaussian",
        dropout: float = 0.0,
    ):
        super().__init__(in_channels, hidden_channels, out_channels, dim, num_layers)
        self.radius = radius
        self.dropout = dropout
        self.convs = torch.nn.ModuleList()
        self.lins = torch.nn.ModuleList()
        self.norms = torch.nn.ModuleList()
        channels = in_channels
        for _ in range(num_layers):
            # The norm that follows has a bias.
            conv = BilateralConv(
                channels, hidden_channels, dim, radius, bias=False, normalize=normalize, init=init
            )
            self.convs.append(conv)
            self.lins.append(Linear(channels, hidden_channels, bias=False))
            self.norms.append(BatchNorm(hidden_channels, allow_single_element=True))
            channels = hidden_channels
        self.predict = Linear(num_layers * hidden_channels, out_channels)
        self.reset_parameters()

    def forward(self, x: Tensor, feature: Tensor, batch: Tensor | None = None) -> Tensor:
        """Predict at each point.

        Args:
            x: Values at the points.
            feature: Coordinates of the points, divided by their bandwidths.
            batch: Graph of each point; graphs do not mix.
        """
        lattice = self.lay(x, feature, batch)
        outs = []
        for conv, lin, norm in zip(self.convs, self.lins, self.norms, strict=True):
            x = norm(conv(x, feature, batch, lattice) + lin(x)).relu()
            outs.append(x)
        x = torch.nn.functional.dropout(torch.cat(outs, 1), self.dropout, self.training)
        return self.predict(x)

    def _options(self) -> dict[str, Any]:
        return {"radius": self.radius}
