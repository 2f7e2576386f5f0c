"""DeepCNet on the lattice."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.nn import Linear

from permutogeo.checks import check_integer, fail
from permutogeo.lattice import Lattice
from permutogeo.models.base import PointModel
from permutogeo.models.blocks import LatticeBlock
from permutogeo.models.readout import count_graphs, splat_mean
from permutogeo.nn import LatticePool


class LatticeCNet(PointModel):
    r"""DeepCNet (`Graham, 2014 <https://arxiv.org/abs/1409.6070>`_) on the lattice, where sparse
    input stays sparse in all layers.

    Values are splatted (each vertex takes the weighted mean of its points), convolved with
    :math:`k, 2k, 3k, \ldots` channels, and pooled to lattices of half, a quarter, … of the
    resolution. The last level is sliced at a small regular grid in feature space, and a linear
    layer predicts from its values; unlike a global mean, this preserves positions.
    ``from_pretrained("assamese")`` recognizes the cropped characters of
    :class:`permutogeo.datasets.Assamese`, from ink with the features ``pos * 48 / 95``, and
    ``from_pretrained("digits")`` the digits of :class:`permutogeo.datasets.SparseMNIST`, from
    samples with the features ``pos * 20 / 27``.

    Args:
        in_channels: Size of each input sample, or ``-1`` to infer it in the first call.
        hidden_channels: Size of each hidden sample on the finest level, :math:`k`.
        out_channels: Number of classes.
        dim: Feature dimension :math:`d`.
        extent: Features lie in [0, extent].
        num_layers: Number of convolutions on each level.
        depth: Number of poolings.
        read: Points of the output grid along each axis.
        dropout: Dropout probability before the prediction.
        scale: Factor on the features and the grid; :meth:`from_data` chooses it.

    Shapes:
        - x: :math:`(N, C_{in})`
        - feature: :math:`(N, d)`
        - batch: :math:`(N)` int64
        - output: :math:`(B, C_{out})`

    Example:

        >>> model = LatticeCNet(1, 8, 183, dim=2, extent=40.0)
        >>> batch = torch.arange(2).repeat_interleave(150)
        >>> model(torch.ones(300, 1), 40 * torch.rand(300, 2), batch).shape
        torch.Size([2, 183])
    """

    pretrained: ClassVar = {
        "assamese": "lattice_cnet_assamese",
        "digits": "lattice_cnet_digits",
    }
    tasks: ClassVar = ("graph",)
    task = "graph"
    grid: Tensor

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        dim: int,
        extent: float,
        num_layers: int = 1,
        depth: int = 4,
        read: int = 3,
        dropout: float = 0.0,
        scale: float = 1.0,
    ):
        super().__init__(in_channels, hidden_channels, out_channels, dim, num_layers, scale)
        check_integer(self, "depth", depth, 0)
        check_integer(self, "read", read)
        if not extent > 0:
            fail(self, f"Expected 'extent' above 0 (got {extent})")
        self.extent, self.depth, self.read, self.dropout = extent, depth, read, dropout
        widths = [hidden_channels * (level + 1) for level in range(depth + 1)]
        self.blocks = torch.nn.ModuleList(
            LatticeBlock(a, b, dim, num_layers)
            for a, b in zip([in_channels, *widths], widths, strict=False)
        )
        self.pools = torch.nn.ModuleList(LatticePool(c, c, dim) for c in widths[:-1])
        self.predict = Linear(widths[-1] * read**dim, out_channels)
        self.register_buffer("grid", torch.empty(read**dim, dim), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters, and computes the grid."""
        super().reset_parameters()
        place = (torch.arange(self.read) + 0.5) * (self.extent / self.read)
        self.grid.copy_(torch.cartesian_prod(*[place] * self.dim).view(-1, self.dim))

    def forward(
        self,
        x: Tensor,
        feature: Tensor | None,
        batch: Tensor | None = None,
        lattice: Lattice | None = None,
    ) -> Tensor:
        """Predict for each graph.

        Args:
            x: Values at the points.
            feature: Features of the points, divided by their bandwidths, in [0, extent]; may be
                ``None`` if ``lattice`` is given.
            batch: Graph of each point. Points of different graphs do not interact.
            lattice: The lattice over the scaled features, if it was built before.
        """
        lattice, _ = self.resolve(x, feature, batch, lattice)
        batch = lattice.batch
        values = splat_mean(lattice, x)
        for level, block in enumerate(self.blocks):
            if level > 0:
                values, lattice, _ = self.pools[level - 1](values, lattice)
            values = block(values, lattice)
        count = count_graphs(batch)
        grid = (self.grid * (self.scale / 2**self.depth)).to(lattice.feature.dtype).repeat(count, 1)
        graph = torch.arange(count, device=grid.device).repeat_interleave(len(self.grid))
        read = lattice.slice(values, lattice.locate(grid, None if batch is None else graph))
        read = torch.nn.functional.dropout(read.view(count, -1), self.dropout, self.training)
        return self.predict(read)

    def _options(self) -> dict[str, Any]:
        return {"extent": self.extent, "depth": self.depth, "read": self.read}
