"""The splat with a learned map of relative positions."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.nn import Linear

from permutogeo.checks import check_integer, check_matrix, check_parameters
from permutogeo.lattice import Lattice
from permutogeo.lattice.normalization import append_ones, divide_by_mass
from permutogeo.lattice.points import check_lattice
from permutogeo.lattice.precision import working_dtype
from permutogeo.nn.layer import LatticeLayer


class PointNetSplat(LatticeLayer):
    r"""The first layer of the `"LatticeNet: Fast Point Cloud Segmentation Using Permutohedral
    Lattices" <https://arxiv.org/abs/1912.05905>`_ paper: each vertex takes the maximum over its
    points of a linear map of their values and of their positions relative to it.

    .. math::
        \mathbf{v}_i = \max_{j \in \mathcal{N}(i)} \mathbf{W} \mathbf{x}_j + \mathbf{P}
        (\mathbf{f}_j - \bar{\mathbf{f}}_i) + \mathbf{b}

    where :math:`\mathcal{N}(i)` are the points that have vertex :math:`i` as a corner of their
    simplex, and :math:`\bar{\mathbf{f}}_i` is their weighted mean. A vertex without points is 0.

    Args:
        in_channels: Size of each input sample, or ``-1`` to infer it in the first call.
        out_channels: Size of each output sample.
        dim: Feature dimension :math:`d` of the lattice.
        bias: If ``False``, the layer does not learn an additive bias.

    Shapes:
        - x: :math:`(N, C_{in})`
        - output: :math:`(M, C_{out})`

    Example:

        >>> import torch
        >>> lattice = Lattice.build(torch.rand(100, 3) * 4)
        >>> PointNetSplat(8, 16, dim=3)(torch.rand(100, 8), lattice).shape[1]
        16
    """

    def __init__(self, in_channels: int, out_channels: int, dim: int, bias: bool = True):
        super().__init__(dim, aggr="max")
        if in_channels != -1:
            check_integer(self, "in_channels", in_channels)
        check_integer(self, "out_channels", out_channels)
        self.out_channels = out_channels
        self.lin_value = Linear(in_channels, out_channels, bias=bias)
        self.lin_position = Linear(dim, out_channels, bias=False)
        self.reset_parameters()

    @property
    def in_channels(self) -> int:
        return self.lin_value.in_channels

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        super().reset_parameters()
        self.lin_value.reset_parameters()
        self.lin_position.reset_parameters()

    def forward(self, x: Tensor, lattice: Lattice) -> Tensor:
        """Splat values at points.

        Args:
            x: Values at the points of ``lattice``.
            lattice: The lattice.
        """
        check_lattice(self, "lattice", lattice)
        check_matrix(
            self,
            "x",
            x,
            device=lattice.device,
            rows=lattice.num_points,
            channels=self.in_channels,
        )
        if self.in_channels != -1:
            check_parameters(self, x)
        dtype = self.lin_position.weight.dtype
        feature = lattice.feature.to(working_dtype(lattice.feature))
        if feature.shape[0]:  # relative positions do not depend on the origin; rounding does
            feature = feature - feature.detach().mean(0)
        sums = lattice.splat(append_ones(feature))
        mean, occupied = divide_by_mass(sums), sums[:, -1:] > 0
        # The maximum of W x + P f does not involve the mean: each point is mapped once.
        mapped = self.lin_value(x.to(dtype)) + self.lin_position(feature.to(dtype))
        edge_index, _ = lattice.incidence_graph()
        size = (lattice.num_points, lattice.num_vertices)
        largest = self.pass_messages(edge_index, size, mapped, explained=True)
        return ((largest - self.lin_position(mean.to(dtype))) * occupied).to(x.dtype)

    def __repr__(self) -> str:
        return self._format_repr()
