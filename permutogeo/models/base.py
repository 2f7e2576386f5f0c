"""Base class of the models, and their building blocks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from permutogeo.checks import check_integer, check_matrix, check_parameters
from permutogeo.lattice import Lattice
from permutogeo.lattice.normalization import append_ones, divide_by_mass
from permutogeo.lattice.points import resolve_lattice
from permutogeo.nn import LatticeConv, LatticeNorm


class PointModel(torch.nn.Module):
    """Base class of the models with a prediction for each point or graph."""

    def __init__(
        self, in_channels: int, hidden_channels: int, out_channels: int, dim: int, num_layers: int
    ):
        super().__init__()
        if in_channels != -1:
            check_integer(self, "in_channels", in_channels)
        check_integer(self, "hidden_channels", hidden_channels)
        check_integer(self, "out_channels", out_channels)
        check_integer(self, "dim", dim)
        check_integer(self, "num_layers", num_layers)
        self.in_channels = in_channels
        self.hidden_channels: int | tuple[int, ...] = hidden_channels
        self.out_channels = out_channels
        self.dim = dim
        self.num_layers = num_layers

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        for module in self.children():
            # ModuleList has no reset_parameters.
            layers: Any = module if isinstance(module, torch.nn.ModuleList) else [module]
            for layer in layers:
                layer.reset_parameters()

    def build_lattice(
        self,
        x: Tensor,
        feature: Tensor | None,
        batch: Tensor | None,
        scale: Callable[[Tensor], Tensor] | None = None,
        lattice: Lattice | None = None,
    ) -> Lattice:
        """Check the arguments of a call and return the lattice over its points."""
        lattice, _ = resolve_lattice(feature, batch, lattice, layer=self, scale=scale)
        channels = self.in_channels
        check_matrix(
            self,
            "x",
            x,
            device=lattice.device,
            rows=lattice.num_points,
            channels=channels,
        )
        if channels != -1:
            check_parameters(self, x)
        return lattice

    def _options(self) -> dict[str, Any]:
        """Return the options that the representation shows beside the sizes."""
        return {}

    def __repr__(self) -> str:
        options = {"dim": self.dim, "num_layers": self.num_layers, **self._options()}
        shown = ", ".join(f"{name}={value!r}" for name, value in options.items())
        sizes = f"{self.in_channels}, {self.hidden_channels}, {self.out_channels}"
        return f"{type(self).__name__}({sizes}, {shown})"


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
            out = norm(conv(values, lattice), lattice)
            values = (out + values if out.shape == values.shape else out).relu()
        return values


def splat_mean(lattice: Lattice, x: Tensor) -> Tensor:
    """Splat and divide by the mass: the weighted mean of the points at each vertex."""
    return divide_by_mass(lattice.splat(append_ones(x)))
