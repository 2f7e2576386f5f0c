"""Building blocks of the models: convolutions or attention with norms, on the vertices."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor
from torch_geometric.nn import MLP, BatchNorm, Linear

from permutogeo.lattice import Lattice
from permutogeo.nn import LatticeAttention, LatticeConv, LatticeNorm


class GraphBatchNorm(BatchNorm):
    """PyG's batch norm over graphs, one graph allowed; in evaluation it does not look at their
    number, which torch.export does not know."""

    def __init__(self, in_channels: int):
        super().__init__(in_channels, allow_single_element=True)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if self.training else self.module(x)


class LatticeBlock(torch.nn.Module):
    """Lattice convolutions with norm and ReLU, residual where the sizes allow."""

    def __init__(self, in_channels: int, out_channels: int, dim: int, num_layers: int):
        super().__init__()
        widths = [in_channels, *[out_channels] * num_layers]
        self.convs = torch.nn.ModuleList(
            LatticeConv(a, b, dim, bias=False) for a, b in pairwise(widths)
        )
        self.norms = torch.nn.ModuleList(LatticeNorm(out_channels, dim) for _ in self.convs)

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        for layer in [*self.convs, *self.norms]:
            layer.reset_parameters()

    def forward(self, values: Tensor, lattice: Lattice) -> Tensor:
        for conv, norm in zip(self.convs, self.norms, strict=True):
            out = conv(values, lattice)
            if out.shape == values.shape:
                values = (norm(out, lattice) + values).relu()
            else:
                values = norm(out, lattice, relu=True)
        return values


class AttentionBlock(torch.nn.Module):
    """Lattice attention and an MLP, each residual after a norm, ``num_layers`` times.

    A channelwise convolution before each attention tells directions apart, whose weights are equal
    at the start: the positional encoding of the `"Conditional Positional Encodings for Vision
    Transformers" <https://arxiv.org/abs/2102.10882>`_ paper. A norm follows the last layer.
    """

    #: Channels of a head.
    head_channels = 16

    def __init__(self, in_channels: int, out_channels: int, dim: int, num_layers: int):
        super().__init__()
        heads = max(1, out_channels // self.head_channels)
        while out_channels % heads:
            heads -= 1
        self.lin = Linear(in_channels, out_channels)
        self.convs = torch.nn.ModuleList(
            LatticeConv(out_channels, out_channels, dim, groups=out_channels)
            for _ in range(num_layers)
        )
        self.attentions = torch.nn.ModuleList(
            LatticeAttention(out_channels, out_channels, dim, heads) for _ in range(num_layers)
        )
        self.mlps = torch.nn.ModuleList(
            MLP([out_channels, 2 * out_channels, out_channels], act="gelu", norm=None)
            for _ in range(num_layers)
        )
        self.norms = torch.nn.ModuleList(
            LatticeNorm(out_channels, dim) for _ in range(2 * num_layers + 1)
        )

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        for layer in [self.lin, *self.convs, *self.attentions, *self.mlps, *self.norms]:
            layer.reset_parameters()

    def forward(self, values: Tensor, lattice: Lattice) -> Tensor:
        values = self.lin(values)
        layers = zip(self.convs, self.attentions, self.mlps, strict=True)
        for i, (conv, attention, mlp) in enumerate(layers):
            values = values + conv(values, lattice)
            values = values + attention(self.norms[2 * i](values, lattice), lattice)
            values = values + mlp(self.norms[2 * i + 1](values, lattice))
        return self.norms[-1](values, lattice)
