"""Networks on a regular grid whose first layer reads points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from permutogeo.models._pretrained import Pretrained
from permutogeo.nn import BilateralConv
from permutogeo.nn._check import check_count, fail

Layers = Sequence[tuple[int, int, int]]


class GridStem(torch.nn.Module):
    """A bilateral convolution from points onto a square grid that its features span.

    Args:
        in_channels: Size of each input sample.
        out_channels: Size of each output sample.
        side: Points of the grid along each axis.
        margin: Further points at either end, which are left out.
        extent: The grid with its margin covers the features in [0, extent].
        radius: Size of the neighborhood.
        normalize: See :class:`permutogeo.nn.BilateralConv`.
    """

    grid: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        side: int,
        margin: int,
        extent: float,
        radius: int,
        normalize: str | None,
    ):
        super().__init__()
        self.side = side
        self.conv = BilateralConv(
            in_channels, out_channels, 2, radius, normalize=normalize, init="kaiming"
        )
        place = (torch.arange(side) + margin) * (extent / (side + 2 * margin - 1))
        self.register_buffer("grid", torch.cartesian_prod(place, place).flip(1), persistent=False)

    def forward(self, x: Tensor, feature: Tensor, batch: Tensor | None) -> Tensor:
        """Values on the grid of each graph, ``[B, C, side, side]``, rows along the last feature."""
        if batch is None:
            batch = torch.zeros(len(x), dtype=torch.long, device=x.device)
        count = int(batch.max()) + 1 if len(batch) else 0
        grid = self.grid.to(feature.dtype).repeat(count, 1)
        graph = torch.arange(count, device=x.device).repeat_interleave(self.side**2)
        out = self.conv(x, (feature, grid), (batch, graph))
        return out.view(count, self.side, self.side, -1).permute(0, 3, 1, 2)


class GridNet(Pretrained):
    """Base of the networks: a stem, then convolutions on the grid, and a linear layer.

    Args:
        in_channels: Size of each input sample.
        out_channels: Number of classes.
        side: Points along each axis of the grid that the first layer would read.
        layers: Channels, kernel and pooling of each layer, the first of which is the stem's.
        extent: Features lie in [0, extent].
        radius: Size of the stem's neighborhood.
        normalize: Of the stem.
        dropout: Probability to drop a value before the prediction.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        side: int,
        layers: Layers,
        extent: float,
        radius: int,
        normalize: str | None,
        dropout: float,
    ):
        super().__init__()
        check_count(self, "in_channels", in_channels)
        check_count(self, "out_channels", out_channels)
        if not extent > 0:
            fail(self, f"Expected 'extent' above 0 (got {extent})")
        self.in_channels, self.out_channels, self.extent = in_channels, out_channels, extent
        self.radius, self.normalize = radius, normalize
        (width, kernel, pool), *others = layers
        side, margin = side - kernel + 1, (kernel - 1) // 2
        self.first = GridStem(in_channels, width, side, margin, extent, radius, normalize)
        #: What follows the first layer.
        self.rest = _spatial(width, pool, others, out_channels, dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start all layers anew."""
        self.first.conv.reset_parameters()
        for layer in self.rest:
            if isinstance(layer, (torch.nn.Conv2d, torch.nn.Linear)):
                torch.nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                torch.nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor, feature: Tensor, batch: Tensor | None = None) -> Tensor:
        """Predict for each graph.

        Args:
            x: Values at the points.
            feature: Coordinates of the points, divided by their bandwidths, in [0, extent].
            batch: Graph of each point; graphs do not mix.
        """
        return self.rest(self.first(x, feature, batch))

    def __repr__(self) -> str:
        options: dict[str, Any] = {"extent": self.extent, "radius": self.radius}
        shown = ", ".join(f"{name}={value!r}" for name, value in options.items())
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, {shown})"


def _spatial(
    width: int, pool: int, layers: Layers, out_channels: int, dropout: float
) -> torch.nn.Sequential:
    """The layers after a first one of some width, from its pooling to the prediction."""
    # Maxima come before ReLU, which gives the same of fewer values.
    modules: list[torch.nn.Module] = [torch.nn.MaxPool2d(pool), torch.nn.ReLU()]
    for channels, kernel, pool in layers:
        modules.append(torch.nn.Conv2d(width, channels, kernel))
        if pool > 1:
            modules.append(torch.nn.MaxPool2d(pool))
        modules.append(torch.nn.ReLU())
        width = channels
    modules += [torch.nn.Flatten(), torch.nn.Dropout(dropout)]
    return torch.nn.Sequential(*modules, torch.nn.Linear(width, out_channels))
