"""Transformer on the lattice."""

from __future__ import annotations

from typing import Any, ClassVar

from permutogeo.models.lattice_unet import LatticeUNet


class BilateralTransformer(LatticeUNet):
    r"""A U-Net of lattice attention: a :class:`LatticeUNet` whose blocks on coarse levels are
    :class:`permutogeo.nn.LatticeAttention` and MLPs, with norms before and residual connections
    around both, and whose first layer sees the positions of the points relative to the vertices.
    A channelwise convolution before each attention encodes positions, as in the `"Conditional
    Positional Encodings for Vision Transformers" <https://arxiv.org/abs/2102.10882>`_ paper. The
    finest level has convolutions, as in the `"CoAtNet: Marrying Convolution and Attention for All
    Data Sizes" <https://arxiv.org/abs/2106.04803>`_ paper; with ``depth=0`` it has attention.

    Each vertex attends to the occupied vertices of its stencil, so that the cost is linear in the
    number of points, and the features decide which points are neighbors.

    Args:
        in_channels: Size of each input sample, or ``-1`` to infer it in the first call.
        hidden_channels: Size of each hidden sample on the finest level.
        out_channels: Size of each output sample.
        dim: Feature dimension :math:`d`.
        num_layers: Number of blocks on each level of the encoder and of the decoder.
        depth: Number of poolings.
        options: Further arguments of :class:`LatticeUNet`.

    Shapes:
        - x: :math:`(N, C_{in})`
        - feature: :math:`(N, d)`, or :math:`((N, d), (N', d))` for other output points
        - batch: :math:`(N)`, or :math:`((N), (N'))` int64
        - output: :math:`(N, C_{out})`, :math:`(N', C_{out})`, or :math:`(B, C_{out})` with
          ``task="graph"``

    Example:

        >>> import torch
        >>> model = BilateralTransformer(3, 16, 4, dim=3)
        >>> model(torch.rand(100, 3), torch.rand(100, 3) * 8).shape
        torch.Size([100, 4])
    """

    pretrained: ClassVar = {}

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        dim: int,
        num_layers: int = 1,
        depth: int = 2,
        **options: Any,
    ):
        options = {"block": "attention", "splat": "pointnet", **options}
        sizes = (in_channels, hidden_channels, out_channels, dim, num_layers, depth)
        super().__init__(*sizes, **options)
