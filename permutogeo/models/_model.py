"""What the models share: their sizes, their checks and their representation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from permutogeo.lattice import Lattice
from permutogeo.nn._check import check_count, check_parameters, check_values
from permutogeo.nn._points import lay_lattice


class PointModel(torch.nn.Module):
    """Base of the models: sizes checked once, a lattice laid over each input."""

    def __init__(
        self, in_channels: int, hidden_channels: int, out_channels: int, dim: int, num_layers: int
    ):
        super().__init__()
        if in_channels != -1:
            check_count(self, "in_channels", in_channels)
        check_count(self, "hidden_channels", hidden_channels)
        check_count(self, "out_channels", out_channels)
        check_count(self, "dim", dim)
        check_count(self, "num_layers", num_layers)
        self.in_channels = in_channels
        self.hidden_channels: int | tuple[int, ...] = hidden_channels
        self.out_channels = out_channels
        self.dim = dim
        self.num_layers = num_layers

    def reset_parameters(self) -> None:
        """Start all layers anew."""
        for module in self.children():
            # A list of layers has no such method of its own.
            layers: Any = module if isinstance(module, torch.nn.ModuleList) else [module]
            for layer in layers:
                layer.reset_parameters()

    def lay(
        self,
        x: Tensor,
        feature: Tensor,
        batch: Tensor | None,
        scale: Callable[[Tensor], Tensor] | None = None,
    ) -> Lattice:
        """The lattice over the points of a call, all of whose arguments are checked."""
        lattice, _ = lay_lattice(self, feature, batch, None, scale)
        channels = self.in_channels
        check_values(self, "x", x, channels, lattice.device, lattice.num_points)
        if channels != -1:
            check_parameters(self, x)
        return lattice

    def _options(self) -> dict[str, Any]:
        """What a representation shows beside the sizes."""
        return {}

    def __repr__(self) -> str:
        options = {"dim": self.dim, "num_layers": self.num_layers, **self._options()}
        shown = ", ".join(f"{name}={value!r}" for name, value in options.items())
        sizes = f"{self.in_channels}, {self.hidden_channels}, {self.out_channels}"
        return f"{type(self).__name__}({sizes}, {shown})"
