"""The slice with learned weights."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import Linear, inits

from permutogeo.checks import check_integer, check_matrix, check_parameters
from permutogeo.lattice import Incidence, Lattice
from permutogeo.lattice.incidence import check_incidence
from permutogeo.lattice.points import check_lattice
from permutogeo.lattice.precision import working_dtype
from permutogeo.nn.layer import LatticeLayer


class LatticeSlice(LatticeLayer):
    r"""The slice with learned weights ("DeformSlice") from the `"LatticeNet: Fast Point Cloud
    Segmentation Using Permutohedral Lattices" <https://arxiv.org/abs/1912.05905>`_ paper.

    .. math::
        \mathbf{x}^{\prime}_i = \sum_{v} (w_{iv} + \Delta_{iv}) \, \mathbf{v}_v, \quad
        \Delta_i = \mathbf{A} \, \textrm{ReLU} \left( \mathbf{B} \left[ w_{iv}, \, w_{iv}
        \mathbf{C} \mathbf{v}_v \right]_{v} + \mathbf{b} \right) + \mathbf{a}

    where :math:`w_{iv}` is the barycentric weight of point :math:`i` at corner :math:`v` of its
    simplex, and the corners are concatenated in the order of the lattice. :math:`\mathbf{A}` and
    :math:`\mathbf{a}` are initialized to zero, which is the plain slice.

    Args:
        in_channels: Size of each input sample, or ``-1`` to infer it in the first call.
        dim: Feature dimension :math:`d` of the lattice.
        hidden_channels: Size of the projected values :math:`\mathbf{C} \mathbf{v}`, and of the
            hidden layer per corner.

    Shapes:
        - values: :math:`(M, C)`
        - output: :math:`(N, C)`

    Example:

        >>> lattice = Lattice.build(torch.rand(100, 3) * 4)
        >>> LatticeSlice(8, dim=3)(lattice.splat(torch.rand(100, 8)), lattice).shape
        torch.Size([100, 8])
    """

    def __init__(self, in_channels: int, dim: int, hidden_channels: int = 8):
        super().__init__(dim)
        if in_channels != -1:
            check_integer(self, "in_channels", in_channels)
        check_integer(self, "hidden_channels", hidden_channels)
        self.hidden_channels = hidden_channels
        corners, width = dim + 1, (dim + 1) * (hidden_channels + 1)
        self.lin_values = Linear(in_channels, hidden_channels, bias=False)
        self.lin_hidden = Linear(width, corners * hidden_channels)
        self.lin_offset = Linear(corners * hidden_channels, corners)
        self.reset_parameters()

    @property
    def in_channels(self) -> int:
        return self.lin_values.in_channels

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        super().reset_parameters()
        self.lin_values.reset_parameters()
        self.lin_hidden.reset_parameters()
        inits.zeros(self.lin_offset.weight)
        inits.zeros(self.lin_offset.bias)

    def forward(self, values: Tensor, lattice: Lattice, at: Incidence | None = None) -> Tensor:
        """Slice values at vertices.

        Args:
            values: Values at the vertices of ``lattice``.
            lattice: The lattice.
            at: The output points, from ``lattice.locate`` or ``Lattice.build_bipartite``; the
                points of the lattice if ``None``.
        """
        check_lattice(self, "lattice", lattice)
        if at is not None:
            check_incidence(self, at, lattice)
        check_matrix(
            self,
            "values",
            values,
            device=lattice.device,
            rows=lattice.num_vertices,
            channels=self.in_channels,
            of="vertices of 'lattice'",
        )
        if self.in_channels != -1:
            check_parameters(self, values, "'values'")
        incidence = lattice.incidence if at is None else at
        working = working_dtype(values)
        weight = incidence.weight.to(working)
        weight = weight + self._offset(values.to(working), incidence, weight)
        moved = incidence.with_weight(weight)
        return self.slice(lattice, values.to(working), moved, explained=True).to(values.dtype)

    def _offset(self, values: Tensor, incidence: Incidence, weight: Tensor) -> Tensor:
        """Return the learned offset of each corner weight, ``[N, d + 1]``."""
        dtype = self.lin_hidden.weight.dtype
        narrow = weight.to(dtype).unsqueeze(-1)
        with torch.autocast(values.device.type, enabled=False):
            seen = incidence.spread(self.lin_values(values.to(dtype)))
            # Absent corners, of index -1, read the last row.
            seen = torch.cat([seen, seen.new_zeros(1, seen.shape[1])])[incidence.vertex.long()]
            corners = torch.cat([narrow, narrow * seen], -1).flatten(1)
            return self.lin_offset(self.lin_hidden(corners).relu()).to(weight.dtype)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, dim={self.dim}, "
            f"hidden_channels={self.hidden_channels})"
        )
