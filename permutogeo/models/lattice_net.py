"""LatticeNet."""

from __future__ import annotations

from typing import Any, ClassVar

from permutogeo.models.lattice_unet import LatticeUNet


class LatticeNet(LatticeUNet):
    r"""The network of the `"LatticeNet: Fast Point Cloud Segmentation Using Permutohedral Lattices"
    <https://arxiv.org/abs/1912.05905>`_ paper: a :class:`LatticeUNet` whose first layer sees the
    positions of the points relative to the vertices, with residual blocks of two convolutions and a
    slice with learned weights.

    Args:
        in_channels: Size of each input sample, or ``-1`` to infer it in the first call.
        hidden_channels: Size of each hidden sample on the finest level.
        out_channels: Size of each output sample.
        dim: Feature dimension :math:`d`.
        num_layers: Number of convolutions on each level of the encoder and of the decoder.
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
        >>> model = LatticeNet(3, 8, 4, dim=3)
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
        num_layers: int = 2,
        depth: int = 3,
        **options: Any,
    ):
        options = {"splat": "pointnet", "slice": "learned", "pool": "learned", **options}
        sizes = (in_channels, hidden_channels, out_channels, dim, num_layers, depth)
        super().__init__(*sizes, **options)
