"""Scene flow between two clouds."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import MLP

from permutogeo.checks import (
    check_integer,
    check_matrix,
    check_pair,
    check_parameter_dtype,
    fail,
    prefix_errors,
)
from permutogeo.lattice import Incidence, Lattice
from permutogeo.models.base import PointModel
from permutogeo.models.blocks import LatticeBlock
from permutogeo.models.readout import splat_mean
from permutogeo.nn import LatticePool, LatticeUnpool


class HPLFlowNet(PointModel):
    r"""Scene flow after the `"HPLFlowNet: Hierarchical Permutohedral Lattice FlowNet for Scene Flow
    Estimation on Large-scale Point Clouds" <https://arxiv.org/abs/1906.05332>`_ paper: the motion
    of each point of a cloud, given the cloud at a later time.

    Both clouds are splatted onto one lattice and encoded by the same layers on lattices of
    decreasing resolution. At each level the two are compared (the correlation layer): vertex
    :math:`i` of the first cloud with the vertices :math:`i + k` of the second around it,

    .. math::
        \mathbf{c}_i = \mathbf{W} \left[ \mathbf{u}_i, \, \mathbf{v}_i, \,
        (\mathbf{u}_i^{\top} \mathbf{v}_{i + k})_{k} \right]

    and the comparisons are unpooled from coarse to fine, so that large motions are found on coarse
    lattices. An MLP predicts the flow at the points of the first cloud.

    Args:
        in_channels: Size of each input sample, or ``-1`` to infer it in the first call.
        hidden_channels: Size of each hidden sample.
        out_channels: Size of each output sample, 3 for a flow in space.
        dim: Feature dimension :math:`d`.
        num_layers: Number of convolutions on each level of the encoder and of the decoder.
        depth: Number of poolings. The coarsest lattice relates points at a distance of about
            :math:`2^{depth}`.
        scale: Factor on the features.

    Shapes:
        - x: :math:`((N, C_{in}), (N', C_{in}))`, values of the first and of the second cloud
        - feature: :math:`((N, d), (N', d))`
        - batch: :math:`((N), (N'))` int64
        - output: :math:`(N, C_{out})`

    Example:

        >>> model = HPLFlowNet(3, 16, 3, dim=3)
        >>> first = torch.rand(100, 3)
        >>> second = first + 0.1
        >>> model((first, second), (first * 8, second * 8)).shape
        torch.Size([100, 3])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        dim: int,
        num_layers: int = 1,
        depth: int = 3,
        scale: float = 1.0,
    ):
        super().__init__(in_channels, hidden_channels, out_channels, dim, num_layers, scale)
        check_integer(self, "depth", depth, 0)
        self.depth = depth
        width, single = hidden_channels, {"allow_single_element": True}
        taps = 2 ** (dim + 1) - 1
        self.lift = MLP([in_channels, width, width], norm_kwargs=single, plain_last=False)
        self.downs = torch.nn.ModuleList(
            LatticeBlock(width, width, dim, num_layers) for _ in range(depth + 1)
        )
        self.pools = torch.nn.ModuleList(
            LatticePool(width, width, dim, "mean") for _ in range(depth)
        )
        self.compares = torch.nn.ModuleList(
            MLP([2 * width + taps, width, width], norm=None) for _ in range(depth + 1)
        )
        self.unpools = torch.nn.ModuleList(LatticeUnpool(width, width, dim) for _ in range(depth))
        self.ups = torch.nn.ModuleList(
            LatticeBlock(width if level == depth else 2 * width, width, dim, num_layers)
            for level in range(depth + 1)
        )
        self.predict = MLP([2 * width, width, out_channels], norm_kwargs=single)
        self.reset_parameters()

    def forward(
        self,
        x: tuple[Tensor, Tensor],
        feature: tuple[Tensor, Tensor] | None,
        batch: tuple[Tensor, Tensor] | None = None,
        lattice: tuple[Lattice, Incidence] | None = None,
    ) -> Tensor:
        """Predict the motion of each point of the first cloud.

        Args:
            x: Values at the points of both clouds.
            feature: Features of the points of both clouds, divided by their bandwidths; may be
                ``None`` if ``lattice`` is given.
            batch: Graph of each point: the same pair of clouds has the same number.
            lattice: The result of ``Lattice.build_bipartite`` for the scaled features of both
                clouds, if it was built before.
        """
        first, second = prefix_errors(self, check_pair, "x", x)
        if lattice is None and not isinstance(feature, tuple | list):
            fail(self, "Expected 'feature' to be a pair, for both clouds")
        both, at = self.resolve(first, feature, batch, lattice)
        if at is None:
            fail(self, "Expected 'lattice' as Lattice.build_bipartite returns it, for both clouds")
        channels = first.shape[1]
        rows = at.num_points
        check_matrix(self, "x[1]", second, device=both.device, rows=rows, channels=channels)
        check_parameter_dtype(self, "x[1]", second)
        lifted = self.lift(torch.cat([first, second]))
        lifted, other = lifted[: first.shape[0]], lifted[first.shape[0] :]
        levels, maps = self._encode(splat_mean(both, lifted), splat_mean(both, other, at), both)
        values = self._decode(levels, maps)
        return self.predict(torch.cat([both.slice(values), lifted], 1))

    def _encode(self, own: Tensor, other: Tensor, lattice: Lattice) -> tuple[list, list]:
        """Return the comparison of the clouds and the lattice of each level, and the maps."""
        levels: list[tuple[Tensor, Lattice]] = []
        maps: list[Incidence] = []
        for level, block in enumerate(self.downs):
            if level > 0:
                fine, pool = lattice, self.pools[level - 1]
                own, lattice, at = pool(own, fine)
                other, _, _ = pool(other, fine, lattice, at)
                maps.append(at)
            own, other = block(own, lattice), block(other, lattice)
            compare = torch.cat([own, other, _correlate(own, other, lattice)], 1)
            levels.append((self.compares[level](compare), lattice))
        return levels, maps

    def _decode(self, levels: list, maps: list) -> Tensor:
        """Return values at the vertices of the finest level, from coarse to fine."""
        values, coarse = levels[-1]
        values = self.ups[-1](values, coarse)
        for level in reversed(range(self.depth)):
            skip, lattice = levels[level]
            values = self.unpools[level](values, lattice, coarse, maps[level], skip)
            values, coarse = self.ups[level](values, lattice), lattice
        return values

    def _options(self) -> dict[str, Any]:
        return {"depth": self.depth}


def _correlate(own: Tensor, other: Tensor, lattice: Lattice) -> Tensor:
    """Return the correlation of each vertex with each tap of its stencil, ``[M, K]``."""
    index = lattice.cached(
        "correlation",
        lambda: Incidence(
            lattice.neighbors(),
            lattice.weight.new_zeros(lattice.neighbors().shape),
            lattice.num_vertices,
        ),
    )
    return index.dot(own, other) / own.shape[1]
