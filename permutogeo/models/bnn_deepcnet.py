"""DeepCNet with a bilateral first layer."""

from __future__ import annotations

from permutogeo.checks import check_integer
from permutogeo.models.grid_net import GridNet


class BNNDeepCNet(GridNet):
    r"""DeepCNet (`Graham, 2014 <https://arxiv.org/abs/1409.6070>`_) whose first layer is a
    bilateral convolution, from the `"Learning Sparse High Dimensional Filters: Image Filtering,
    Dense CRFs and Bilateral Neural Networks" <https://arxiv.org/abs/1503.04949>`_ paper.

    DeepCNet(l, k) has :math:`l + 1` convolutions of :math:`k, 2 k, \ldots` channels on a grid of
    :math:`3 \cdot 2^l` points a side, with max pooling after each but the last. Here, the first is
    a bilateral convolution from sparse points, such as ink, to the grid.

    Args:
        in_channels: Size of each input sample.
        out_channels: Number of classes.
        extent: Features lie in [0, extent].
        depth: Number of poolings :math:`l`.
        hidden_channels: Channels of the first layer :math:`k`.
        radius: Stencil radius of the first layer.
        normalize: Normalization of the first layer, see :class:`permutogeo.nn.BilateralConv`. For
            ink of constant value, ``"after"`` would divide out its density; ``"before"`` does not.
        dropout: Dropout probability before the prediction.

    Shapes:
        - x: :math:`(N, C_{in})`
        - feature: :math:`(N, 2)`
        - batch: :math:`(N)` int64
        - output: :math:`(B, C_{out})`

    Example:

        >>> import torch
        >>> model = BNNDeepCNet(1, 183, extent=40.0, depth=3, hidden_channels=8)
        >>> model(torch.ones(300, 1), 40 * torch.rand(300, 2)).shape
        torch.Size([1, 183])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        extent: float = 40.0,
        depth: int = 5,
        hidden_channels: int = 50,
        radius: int = 1,
        normalize: str | None = "before",
        dropout: float = 0.0,
    ):
        check_integer(self, "depth", depth)
        check_integer(self, "hidden_channels", hidden_channels)
        kernels, pools = [3, *[2] * depth], [*[2] * depth, 1]
        widths = [hidden_channels * (level + 1) for level in range(depth + 1)]
        layers = list(zip(widths, kernels, pools, strict=True))
        side = 3 * 2**depth
        super().__init__(
            in_channels, out_channels, side, layers, extent, radius, normalize, dropout
        )
        self.depth, self.hidden_channels = depth, hidden_channels
