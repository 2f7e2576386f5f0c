"""Base class of grid networks with a bilateral first layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from permutogeo.checks import check_integer, check_parameter_dtype, fail
from permutogeo.lattice import Incidence, Lattice
from permutogeo.models.readout import count_graphs
from permutogeo.nn import BilateralConv
from permutogeo.weights.pretrained import Pretrained

Layers = Sequence[tuple[int, int, int]]
Pair = tuple[Tensor, Tensor]
LatticeAndGrid = tuple[Lattice, Incidence]


class GridStem(torch.nn.Module):
    """A bilateral convolution from points to a regular grid in feature space.

    Args:
        in_channels: Size of each input sample.
        out_channels: Size of each output sample.
        side: Grid points along each axis.
        margin: Grid points cut off at either end.
        extent: The grid with its margin spans [0, extent].
        radius: Stencil radius.
        normalize: Normalization, see :class:`permutogeo.nn.BilateralConv`.
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
        self.margin, self.extent = margin, extent
        self.register_buffer("grid", torch.empty(side**2, 2), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters, and computes the grid."""
        self.conv.reset_parameters()
        step = self.extent / (self.side + 2 * self.margin - 1)
        place = (torch.arange(self.side) + self.margin) * step
        self.grid.copy_(torch.cartesian_prod(place, place).flip(1))

    def with_grid(self, feature: Tensor, batch: Tensor | None) -> tuple[Pair, Pair]:
        """Return features and graphs of the points and of the grid of each graph."""
        if batch is None:
            batch = torch.zeros(feature.shape[0], dtype=torch.long, device=feature.device)
        count = count_graphs(batch)
        grid = self.grid.to(feature.dtype).repeat(count, 1)
        graph = torch.arange(count, device=feature.device).repeat_interleave(self.side**2)
        return (feature, grid), (batch, graph)

    def forward(
        self,
        x: Tensor,
        feature: Tensor | None,
        batch: Tensor | None = None,
        lattice: LatticeAndGrid | None = None,
    ) -> Tensor:
        """Return values on the grid of each graph, ``[B, C, side, side]``; the last feature runs
        along the rows."""
        if feature is None:
            out = self.conv(x, None, None, lattice)
        else:
            out = self.conv(x, *self.with_grid(feature, batch), lattice)
        return out.view(-1, self.side, self.side, out.shape[1]).permute(0, 3, 1, 2)


class GridNet(Pretrained):
    """Base class of the networks: bilateral stem, convolutions on the grid, linear layer.

    Args:
        in_channels: Size of each input sample.
        out_channels: Number of classes.
        side: Grid points along each axis of the input of the first layer.
        layers: Channels, kernel size and pooling of each layer; the first is the stem.
        extent: Features lie in [0, extent].
        radius: Stencil radius of the stem.
        normalize: Normalization of the stem.
        dropout: Dropout probability before the prediction.
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
        check_integer(self, "in_channels", in_channels)
        check_integer(self, "out_channels", out_channels)
        if not extent > 0:
            fail(self, f"Expected 'extent' above 0 (got {extent})")
        self.in_channels, self.out_channels, self.extent = in_channels, out_channels, extent
        self.radius, self.normalize = radius, normalize
        (width, kernel, pool), *others = layers
        side, margin = side - kernel + 1, (kernel - 1) // 2
        self.first = GridStem(in_channels, width, side, margin, extent, radius, normalize)
        #: The layers after the stem.
        self.rest = _spatial(width, pool, others, out_channels, dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        self.first.reset_parameters()
        for layer in self.rest:
            if isinstance(layer, (torch.nn.Conv2d, torch.nn.Linear)):
                torch.nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                torch.nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def build_lattice(self, feature: Tensor, batch: Tensor | None = None) -> LatticeAndGrid:
        """Return the lattice over points and grid, to build it once for several calls.

        Args:
            feature: Features of the points, divided by their bandwidths, in [0, extent].
            batch: Graph of each point.
        """
        features, batches = self.first.with_grid(feature, batch)
        return Lattice.build_bipartite(*features, *batches)

    def forward(
        self,
        x: Tensor,
        feature: Tensor | None,
        batch: Tensor | None = None,
        lattice: LatticeAndGrid | None = None,
    ) -> Tensor:
        """Predict for each graph.

        Args:
            x: Values at the points.
            feature: Features of the points, divided by their bandwidths, in [0, extent]; may be
                ``None`` if ``lattice`` is given.
            batch: Graph of each point. Points of different graphs do not interact.
            lattice: The result of :meth:`build_lattice`, if it was built before.
        """
        if isinstance(x, Tensor):
            check_parameter_dtype(self, "x", x)
        if lattice is not None:
            self._check_lattice(lattice)
        return self.rest(self.first(x, feature, batch, lattice))

    def _check_lattice(self, lattice: Any) -> None:
        """Raise unless the output points of ``lattice`` are the grids of its graphs."""
        if not isinstance(lattice, tuple | list) or len(lattice) != 2:
            kind = type(lattice).__name__
            fail(self, f"Expected 'lattice' as build_lattice returns it (got {kind})")
        points = lattice[1].num_points
        if points % self.first.side**2:
            expected = f"a multiple of the {self.first.side**2} points of the grid"
            fail(self, f"Expected {expected}, as build_lattice returns it (got {points})")

    def __repr__(self) -> str:
        options: dict[str, Any] = {"extent": self.extent, "radius": self.radius}
        shown = ", ".join(f"{name}={value!r}" for name, value in options.items())
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, {shown})"


def _spatial(
    width: int, pool: int, layers: Layers, out_channels: int, dropout: float
) -> torch.nn.Sequential:
    """Return the layers after a stem of ``width`` channels, starting with its pooling."""
    # Max pooling commutes with ReLU and leaves fewer values to it.
    modules: list[torch.nn.Module] = [torch.nn.MaxPool2d(pool), torch.nn.ReLU()]
    for channels, kernel, pool in layers:
        modules.append(torch.nn.Conv2d(width, channels, kernel))
        if pool > 1:
            modules.append(torch.nn.MaxPool2d(pool))
        modules.append(torch.nn.ReLU())
        width = channels
    modules += [torch.nn.Flatten(), torch.nn.Dropout(dropout)]
    return torch.nn.Sequential(*modules, torch.nn.Linear(width, out_channels))
