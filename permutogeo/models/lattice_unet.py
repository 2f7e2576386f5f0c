"""U-Net on the lattice."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import MLP, global_max_pool, global_mean_pool

from permutogeo.checks import check_choice, check_integer, fail
from permutogeo.lattice import Lattice
from permutogeo.models.base import LatticeBlock, PointModel, splat_mean
from permutogeo.nn import LatticePool, LatticeUnpool


class LatticeUNet(PointModel):
    r"""A U-Net on the lattice, after the `"LatticeNet: Fast Point Cloud Segmentation Using
    Permutohedral Lattices" <https://arxiv.org/abs/1912.05905>`_ paper.

    An MLP lifts the values at the points. They are splatted (each vertex takes the weighted mean of
    its points), convolved, and pooled to lattices of half, a quarter, … of the resolution with
    twice, four times, … the channels. With ``task="point"``, values are unpooled level by level
    with skip connections and sliced, and an MLP predicts from them and the lifted values. With
    ``task="graph"``, an MLP predicts from the mean and maximum of each level over a graph.

    Args:
        in_channels: Size of each input sample, or ``-1`` to infer it in the first call.
        hidden_channels: Size of each hidden sample on the finest level.
        out_channels: Size of each output sample.
        dim: Feature dimension :math:`d`.
        num_layers: Number of convolutions on each level of the encoder and of the decoder.
        depth: Number of poolings.
        task: ``"point"`` or ``"graph"``.
        pool: Pooling, see :class:`permutogeo.nn.LatticePool`.
        dropout: Dropout probability before the prediction.

    Shapes:
        - x: :math:`(N, C_{in})`
        - feature: :math:`(N, d)`
        - batch: :math:`(N)` int64
        - output: :math:`(N, C_{out})`, or :math:`(B, C_{out})` with ``task="graph"``

    Example:

        >>> x, feature = torch.rand(100, 3), torch.rand(100, 3) * 8
        >>> LatticeUNet(3, 8, 4, dim=3)(x, feature).shape
        torch.Size([100, 4])
        >>> batch = torch.arange(2).repeat_interleave(50)
        >>> LatticeUNet(3, 8, 4, dim=3, task="graph")(x, feature, batch).shape
        torch.Size([2, 4])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        dim: int,
        num_layers: int = 1,
        depth: int = 2,
        task: str = "point",
        pool: str = "max",
        dropout: float = 0.0,
    ):
        super().__init__(in_channels, hidden_channels, out_channels, dim, num_layers)
        check_integer(self, "depth", depth, 0)
        check_choice(self, "task", task, ("point", "graph"))
        self.depth = depth
        self.task = task
        width = [hidden_channels * 2**level for level in range(depth + 1)]
        lifted = 2 * hidden_channels
        single = {"allow_single_element": True}
        self.lift = MLP([in_channels, *[hidden_channels] * 2], norm_kwargs=single, plain_last=False)
        self.downs = torch.nn.ModuleList(
            LatticeBlock(width[max(level - 1, 0)], width[level], dim, num_layers)
            for level in range(depth + 1)
        )
        self.pools = torch.nn.ModuleList(LatticePool(c, c, dim, pool) for c in width[:-1])
        steps = range(depth) if task == "point" else range(0)
        self.unpools = torch.nn.ModuleList(
            LatticeUnpool(width[i + 1], width[i + 1], dim) for i in steps
        )
        self.ups = torch.nn.ModuleList(
            LatticeBlock(width[i] + width[i + 1], width[i], dim, num_layers) for i in steps
        )
        read = lifted if task == "point" else 2 * sum(width)
        self.predict = MLP([read, lifted, out_channels], dropout=dropout, norm_kwargs=single)
        self.reset_parameters()

    def forward(
        self,
        x: Tensor,
        feature: Tensor | None,
        batch: Tensor | None = None,
        lattice: Lattice | None = None,
    ) -> Tensor:
        """Predict at each point, or for each graph.

        Args:
            x: Values at the points.
            feature: Features of the points, divided by their bandwidths.
            batch: Graph of each point. Points of different graphs do not interact.
            lattice: ``Lattice.build(feature, batch)``, if it was built before, or a
                :class:`permutogeo.distributed.ShardedLattice`.
        """
        lattice = self.build_lattice(x, feature, batch, lattice=lattice)
        if self.task == "graph" and lattice.incidence.sharded:
            fail(self, "Expected task='point' on a sharded lattice (got 'graph')")
        x = self.lift(x)
        levels, maps = [(splat_mean(lattice, x), lattice)], []
        for level, block in enumerate(self.downs):
            values, lattice = levels[-1]
            if level > 0:
                values, lattice, at = self.pools[level - 1](values, lattice)
                maps.append(at)
                levels.append((values, lattice))
            levels[-1] = (block(values, lattice), lattice)
        if self.task == "graph":
            return self.predict(torch.cat([_readout(*level) for level in levels], 1))
        values, coarse = levels.pop()
        for level in reversed(range(self.depth)):
            skip, lattice = levels.pop()
            values = self.unpools[level](values, lattice, coarse, maps[level], skip)
            values, coarse = self.ups[level](values, lattice), lattice
        return self.predict(torch.cat([coarse.slice(values), x], 1))

    def _options(self) -> dict[str, Any]:
        return {"depth": self.depth, "task": self.task}


def _readout(values: Tensor, lattice: Lattice) -> Tensor:
    """Return mean and maximum over the vertices of each graph, ``[B, 2 C]``."""
    graph = lattice.vertex_batch
    return torch.cat([global_mean_pool(values, graph), global_max_pool(values, graph)], 1)
