"""U-Nets on the lattice."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.nn import MLP

from permutogeo.checks import check_choice, check_integer
from permutogeo.lattice import Incidence, Lattice
from permutogeo.models.base import TASKS, Batches, Features, Lattices, PointModel
from permutogeo.models.blocks import AttentionBlock, GraphBatchNorm, LatticeBlock
from permutogeo.models.readout import count_graphs, output_batch, readout, splat_mean
from permutogeo.nn import LatticePool, LatticeSlice, LatticeUnpool, PointNetSplat

BLOCKS = ("conv", "attention")
# Channels double at each level up to this factor, so that deep networks stay small.
WIDEST = 4


class LatticeUNet(PointModel):
    r"""A U-Net on the lattice, after the `"LatticeNet: Fast Point Cloud Segmentation Using
    Permutohedral Lattices" <https://arxiv.org/abs/1912.05905>`_ paper.

    An MLP lifts the values at the points. They are splatted (each vertex takes the weighted mean of
    its points), convolved, and pooled to lattices of half, a quarter, … of the resolution with
    twice and four times the channels. With ``task="point"``, values are unpooled level by level
    with skip connections and sliced, and an MLP predicts from them and the lifted values. With
    ``task="graph"``, an MLP predicts from the mean and maximum of each level over a graph.
    ``from_pretrained("streets")`` labels scans such as :class:`permutogeo.datasets.StreetScenes`,
    from their heights and positions.

    Args:
        in_channels: Size of each input sample, or ``-1`` to infer it in the first call.
        hidden_channels: Size of each hidden sample on the finest level.
        out_channels: Size of each output sample.
        dim: Feature dimension :math:`d`.
        num_layers: Number of blocks on each level of the encoder and of the decoder.
        depth: Number of poolings.
        task: ``"point"`` or ``"graph"``.
        pool: Pooling, see :class:`permutogeo.nn.LatticePool`.
        dropout: Dropout probability before the prediction.
        block: ``"conv"``, or ``"attention"`` for attention on all levels but the finest.
        splat: ``"mean"``, or ``"pointnet"`` for a :class:`permutogeo.nn.PointNetSplat`.
        slice: ``"linear"``, or ``"learned"`` for a :class:`permutogeo.nn.LatticeSlice`.
        context: If ``True``, each point also sees the mean and maximum of the coarsest level over
            its graph.
        scale: Factor on the features; :meth:`from_data` chooses it.

    Shapes:
        - x: :math:`(N, C_{in})`
        - feature: :math:`(N, d)`, or :math:`((N, d), (N', d))` for other output points
        - batch: :math:`(N)`, or :math:`((N), (N'))` int64
        - output: :math:`(N, C_{out})`, :math:`(N', C_{out})`, or :math:`(B, C_{out})` with
          ``task="graph"``

    Example:

        >>> x, feature = torch.rand(100, 3), torch.rand(100, 3) * 8
        >>> LatticeUNet(3, 8, 4, dim=3)(x, feature).shape
        torch.Size([100, 4])
        >>> batch = torch.arange(2).repeat_interleave(50)
        >>> LatticeUNet(3, 8, 4, dim=3, task="graph")(x, feature, batch).shape
        torch.Size([2, 4])
    """

    pretrained: ClassVar = {"streets": "lattice_unet_streets"}
    tasks: ClassVar = TASKS

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
        block: str = "conv",
        splat: str = "mean",
        slice: str = "linear",
        context: bool = False,
        scale: float = 1.0,
    ):
        super().__init__(in_channels, hidden_channels, out_channels, dim, num_layers, scale)
        check_integer(self, "depth", depth, 0)
        check_choice(self, "task", task, TASKS)
        check_choice(self, "block", block, BLOCKS)
        check_choice(self, "splat", splat, ("mean", "pointnet"))
        check_choice(self, "slice", slice, ("linear", "learned"))
        self.depth, self.task, self.block = depth, task, block
        self.splat, self.slice, self.context = splat, slice, context
        self.width = [hidden_channels * min(2**level, WIDEST) for level in range(depth + 1)]
        lifted, single = 2 * hidden_channels, {"allow_single_element": True}
        self.lift = MLP([in_channels, *[hidden_channels] * 2], norm_kwargs=single, plain_last=False)
        self._add_levels(pool)
        if splat == "pointnet":
            self.embed = PointNetSplat(hidden_channels, hidden_channels, dim)
        if slice == "learned" and task == "point":
            self.read = LatticeSlice(hidden_channels, dim)
        seen = 2 * self.width[-1] if context else 0
        size = lifted + seen if task == "point" else 2 * sum(self.width)
        norm: dict[str, Any] = {"norm_kwargs": single}
        if context and task == "point":
            # Batch norm would remove what is the same at all points of a batch of one graph.
            norm = {"norm": "layer_norm", "norm_kwargs": {"mode": "node"}}
        self.predict = MLP([size, lifted, out_channels], dropout=dropout, **norm)
        if task == "graph":
            self.predict.norms[0] = GraphBatchNorm(lifted)
        self.reset_parameters()

    def _add_levels(self, pool: str) -> None:
        """Add encoder, pooling and, for point tasks, decoder of each level."""
        width, dim = self.width, self.dim
        self.downs = torch.nn.ModuleList(
            self._block(width[max(level - 1, 0)], level) for level in range(self.depth + 1)
        )
        self.pools = torch.nn.ModuleList(LatticePool(c, c, dim, pool) for c in width[:-1])
        steps = range(self.depth) if self.task == "point" else range(0)
        self.unpools = torch.nn.ModuleList(
            LatticeUnpool(width[i + 1], width[i + 1], dim) for i in steps
        )
        self.ups = torch.nn.ModuleList(self._block(width[i] + width[i + 1], i) for i in steps)

    def _block(self, in_channels: int, level: int) -> torch.nn.Module:
        """Return a block of a level. Attention is worth its time where a stencil covers much."""
        coarse = level > 0 or self.depth == 0
        make = AttentionBlock if self.block == "attention" and coarse else LatticeBlock
        return make(in_channels, self.width[level], self.dim, self.num_layers)

    def forward(
        self, x: Tensor, feature: Features, batch: Batches = None, lattice: Lattices = None
    ) -> Tensor:
        """Predict at each point, or for each graph.

        Args:
            x: Values at the input points.
            feature: Features of the points, divided by their bandwidths; a pair for input and
                output points; may be ``None`` if ``lattice`` is given.
            batch: Graph of each point. Points of different graphs do not interact.
            lattice: The lattice over the scaled features, or the result of
                ``Lattice.build_bipartite``, if it was built before.
        """
        finest, at = self.resolve(x, feature, batch, lattice)
        lifted = self.lift(x)
        start = self.embed(lifted, finest) if self.splat == "pointnet" else None
        levels, maps = self._encode(splat_mean(finest, lifted) if start is None else start, finest)
        if self.task == "graph":
            size = count_graphs(finest.batch)
            seen = [readout(values, each.vertex_batch, size) for values, each in levels]
            return self.predict(torch.cat(seen, 1))
        bottom, coarse = levels[-1]
        values = self._decode(levels, maps)
        learned = self.slice == "learned"
        out = self.read(values, finest, at) if learned else finest.slice(values, at)
        own = lifted if at is None else finest.slice(splat_mean(finest, lifted), at)
        parts = [out, own]
        if self.context:
            parts.append(self._context(bottom, coarse, finest, at))
        return self.predict(torch.cat(parts, 1))

    def _encode(self, values: Tensor, lattice: Lattice) -> tuple[list, list]:
        """Return values and lattice of each level, and the maps between the levels."""
        first, *others = self.downs
        levels, maps = [(first(values, lattice), lattice)], []
        for pool, block in zip(self.pools, others, strict=True):
            values, lattice, at = pool(*levels[-1])
            maps.append(at)
            levels.append((block(values, lattice), lattice))
        return levels, maps

    def _decode(self, levels: list, maps: list) -> Tensor:
        """Return values at the vertices of the finest level."""
        *skips, (values, coarse) = levels
        steps = [*zip(self.unpools, self.ups, skips, maps, strict=True)]
        for unpool, block, (skip, lattice), at in reversed(steps):
            values = unpool(values, lattice, coarse, at, skip)
            values, coarse = block(values, lattice), lattice
        return values

    def _context(
        self, values: Tensor, coarse: Lattice, finest: Lattice, at: Incidence | None
    ) -> Tensor:
        """Return mean and maximum of the coarsest level over the graph of each output point."""
        seen = readout(values, coarse.vertex_batch, count_graphs(finest.batch))
        return seen[output_batch(finest, at)]

    def _options(self) -> dict[str, Any]:
        changed = self._changed(block="conv", splat="mean", slice="linear", context=False)
        return {"depth": self.depth, "task": self.task, **changed}
