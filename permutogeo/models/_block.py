"""Convolutions on one level of a lattice."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from permutogeo.lattice import Lattice
from permutogeo.nn import LatticeConv, LatticeNorm


class LatticeBlock(torch.nn.Module):
    """Convolutions, each with its norm, around which values may pass where sizes allow."""

    def __init__(self, in_channels: int, out_channels: int, dim: int, num_layers: int):
        super().__init__()
        widths = [in_channels, *[out_channels] * num_layers]
        self.convs = torch.nn.ModuleList(
            LatticeConv(a, b, dim, bias=False) for a, b in pairwise(widths)
        )
        self.norms = torch.nn.ModuleList(LatticeNorm(out_channels, dim) for _ in self.convs)

    def reset_parameters(self) -> None:
        """Start all layers anew."""
        for layer in [*self.convs, *self.norms]:
            layer.reset_parameters()

    def forward(self, values: Tensor, lattice: Lattice) -> Tensor:
        for conv, norm in zip(self.convs, self.norms, strict=True):
            out = norm(conv(values, lattice), lattice)
            values = (out + values if out.shape == values.shape else out).relu()
        return values


def splat_mean(lattice: Lattice, x: Tensor) -> Tensor:
    """The mean of the points around each vertex, each by its weight there."""
    sums = lattice.splat(torch.cat([x, torch.ones_like(x[:, :1])], 1))
    mass = sums[:, -1:]
    # A point on the side of its simplex leaves a corner without mass.
    return sums[:, :-1] / torch.where(mass > 0, mass, 1.0)
