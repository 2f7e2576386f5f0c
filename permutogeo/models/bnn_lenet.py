"""LeNet with a bilateral first layer."""

from __future__ import annotations

from typing import ClassVar

from permutogeo.checks import check_choice
from permutogeo.models.grid_net import GridNet

# Channels, kernel size and pooling of each layer, by the side of the grid.
_LAYERS = {
    28: ((20, 5, 2), (50, 5, 2), (500, 4, 1)),
    96: ((8, 5, 4), (24, 6, 3), (100, 6, 1)),
}


class BNNLeNet(GridNet):
    r"""LeNet whose first layer is a bilateral convolution, from the `"Learning Sparse High
    Dimensional Filters: Image Filtering, Dense CRFs and Bilateral Neural Networks"
    <https://arxiv.org/abs/1503.04949>`_ paper.

    The first layer is a bilateral convolution from sparse points, such as ink or samples, to the
    regular grid of the following layers. With ``side=96``, these are the layers of LeNet-7 (`LeCun
    et al., 2004 <https://doi.org/10.1109/CVPR.2004.1315150>`_), with ``side=28`` those of LeNet
    (`LeCun et al., 1998 <https://doi.org/10.1109/5.726791>`_) in the sizes of Caffe, with max
    pooling and ReLU. ``from_pretrained("assamese")`` recognizes the cropped characters of
    :class:`permutogeo.datasets.Assamese`, from ink with the features ``pos * 20 / 95``.

    Args:
        in_channels: Size of each input sample.
        out_channels: Number of classes.
        extent: Features lie in [0, extent]; 20 for characters in the paper.
        side: 96 for characters, 28 for digits.
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
        >>> model = BNNLeNet(1, 10, extent=20.0, side=28, radius=2)
        >>> model(torch.rand(157, 1), 20 * torch.rand(157, 2)).shape
        torch.Size([1, 10])
    """

    pretrained: ClassVar = {"assamese": "bnn_lenet_assamese"}

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        extent: float = 20.0,
        side: int = 96,
        radius: int = 1,
        normalize: str | None = "before",
        dropout: float = 0.0,
    ):
        check_choice(self, "side", side, tuple(_LAYERS))
        super().__init__(
            in_channels, out_channels, side, _LAYERS[side], extent, radius, normalize, dropout
        )
        self.side = side
