"""Attention over the neighbors on the lattice."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn import Linear, inits
from torch_geometric.utils import softmax

from permutogeo.checks import check_integer, check_matrix, check_parameters, fail
from permutogeo.lattice import Incidence, Lattice
from permutogeo.lattice.incidence import check_incidence
from permutogeo.lattice.points import check_lattice
from permutogeo.lattice.precision import working_dtype
from permutogeo.nn.layer import LatticeLayer
from permutogeo.ops import stencils


class LatticeAttention(LatticeLayer):
    r"""Multi-head attention of each vertex, or point, over a stencil of lattice vertices, with a
    learned bias for each relative position as in the `"Swin Transformer: Hierarchical Vision
    Transformer using Shifted Windows" <https://arxiv.org/abs/2103.14030>`_ paper.

    .. math::
        \mathbf{v}^{\prime}_i = \mathbf{W}_o \sum_{k} \alpha_{ik} \, \mathbf{W}_v
        \mathbf{v}_{i + k}, \quad \alpha_{ik} = \textrm{softmax}_k \left( \frac{(\mathbf{W}_q
        \mathbf{x}_i)^{\top} \mathbf{W}_k \mathbf{v}_{i + k}}{\sqrt{C}} + b_k \right)

    where :math:`k` runs over the occupied vertices of a stencil, :math:`b_k` is the bias of a tap,
    and :math:`\mathbf{x}_i = \mathbf{v}_i` unless queries are given. A query at a point attends to
    the stencil around the nearest corner of its simplex.

    Args:
        in_channels: Size of each input sample, or ``-1`` to infer it in the first call.
        out_channels: Size of each output sample, a multiple of ``heads``.
        dim: Feature dimension :math:`d` of the lattice.
        heads: Number of attention heads.
        radius: Stencil radius.
        dilation: Factor on the offsets of the stencil.
        stencil: ``"full"``, or ``"axis"`` for the neighbors along the lattice axes only.
        dropout: Dropout probability of the attention weights.
        bias: If ``False``, the linear layers have no bias.

    Shapes:
        - values: :math:`(M, C_{in})`
        - query: :math:`(N, C_{in})`
        - output: :math:`(M, C_{out})`, or :math:`(N, C_{out})` for queries at points

    Example:

        >>> lattice = Lattice.build(torch.rand(100, 3) * 4)
        >>> x = torch.rand(100, 8)
        >>> attention = LatticeAttention(8, 16, dim=3)
        >>> attention(lattice.splat(x), lattice).shape[1]
        16
        >>> attention(lattice.splat(x), lattice, query=x).shape
        torch.Size([100, 16])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        dim: int,
        heads: int = 4,
        radius: int = 1,
        dilation: int = 1,
        stencil: str = "full",
        dropout: float = 0.0,
        bias: bool = True,
    ):
        super().__init__(dim)
        if in_channels != -1:
            check_integer(self, "in_channels", in_channels)
        check_integer(self, "out_channels", out_channels)
        check_integer(self, "heads", heads)
        check_integer(self, "dilation", dilation)
        if out_channels % heads:
            fail(self, f"Expected 'heads' to divide the {out_channels} channels (got {heads})")
        if not 0 <= dropout < 1:
            fail(self, f"Expected 'dropout' from 0 to below 1 (got {dropout})")
        self.out_channels = out_channels
        self.heads = heads
        self.radius, self.dilation, self.stencil = radius, dilation, stencil
        self.dropout = dropout
        self.lin_query = Linear(in_channels, out_channels, bias=bias)
        self.lin_key = Linear(in_channels, out_channels, bias=False)
        self.lin_value = Linear(in_channels, out_channels, bias=bias)
        self.lin_out = Linear(out_channels, out_channels, bias=bias)
        taps = stencils.num_taps(dim, radius, stencil)
        self.tap_bias = Parameter(torch.empty(heads, taps))
        self.reset_parameters()

    @property
    def in_channels(self) -> int:
        return self.lin_value.in_channels

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        super().reset_parameters()
        for linear in (self.lin_query, self.lin_key, self.lin_value, self.lin_out):
            linear.reset_parameters()
        inits.zeros(self.tap_bias)

    def forward(
        self,
        values: Tensor,
        lattice: Lattice,
        query: Tensor | None = None,
        at: Incidence | None = None,
    ) -> Tensor:
        """Attend to values at vertices.

        Args:
            values: Values at the vertices of ``lattice``, for keys and values.
            lattice: The lattice.
            query: Values at points; by default the vertices themselves are the queries.
            at: The points of ``query``, from ``lattice.locate`` or ``Lattice.build_bipartite``; by
                default the points of the lattice.
        """
        check_lattice(self, "lattice", lattice)
        self._check("values", values, lattice, lattice.num_vertices, "vertices of 'lattice'")
        if at is not None:
            check_incidence(self, at, lattice)
            if query is None:
                fail(self, "Expected 'query' with the points 'at' (got None)")
        points = None if query is None else lattice.incidence_at(at)
        if query is not None and points is not None:
            self._check("query", query, lattice, points.num_points, "points")
        dtype, working = self.tap_bias.dtype, working_dtype(values)
        heads = (-1, self.heads, self.out_channels // self.heads)
        attend = self._attend if self.fused else self._attend_by_messages
        with torch.autocast(values.device.type, enabled=False):
            wide = values.to(dtype)
            asked = self.lin_query(wide if query is None else query.to(dtype)) * heads[2] ** -0.5
            projected = (asked, self.lin_key(wide), self.lin_value(wide))
            out = attend(lattice, points, *(each.to(working).view(heads) for each in projected))
            return self.lin_out(out.to(dtype)).to(values.dtype)

    def _check(self, name: str, x: Tensor, lattice: Lattice, rows: int, of: str) -> None:
        check_matrix(
            self, name, x, device=lattice.device, rows=rows, channels=self.in_channels, of=of
        )
        if self.in_channels != -1:
            check_parameters(self, x, f"'{name}'")

    def _attend(
        self, lattice: Lattice, points: Incidence | None, asked: Tensor, keys: Tensor, held: Tensor
    ) -> Tensor:
        """Attention through the kernels of the lattice, with a row for each head."""
        stencil = (self.radius, self.dilation, self.stencil)
        index = _stencil_of_heads(lattice, points, stencil, self.heads)
        # torch's softmax over fewer than 16 columns takes four times as long as its parts, its exp
        # of what underflows ten times as long as exp2.
        asked, bias = asked / math.log(2), self.tap_bias.to(asked.dtype) / math.log(2)
        scores = index.dot(asked.flatten(0, 1), keys.flatten(0, 1)).view(-1, *bias.shape)
        scores = scores + bias + index.weight.to(scores.dtype).view(scores.shape)
        power = (scores - _row_max(scores.detach())).exp2()
        kept = torch.nn.functional.dropout(power, self.dropout, self.training)
        sums = index.with_weight(kept.flatten(0, 1)).slice(held.flatten(0, 1)).view(asked.shape)
        out = sums * power.sum(-1, keepdim=True).reciprocal()
        return out.view(asked.shape[0], self.out_channels)

    def _attend_by_messages(
        self, lattice: Lattice, points: Incidence | None, asked: Tensor, keys: Tensor, held: Tensor
    ) -> Tensor:
        """Attention through PyG's message passing, head by head."""
        neighbors = _stencil(lattice, points, self.radius, self.dilation, self.stencil)
        target, tap = (neighbors >= 0).nonzero(as_tuple=True)
        source = neighbors[target, tap].long()
        scores = (asked[target] * keys[source]).sum(-1) + self.tap_bias.to(keys.dtype).t()[tap]
        attention = softmax(scores, target, num_nodes=asked.shape[0])
        attention = torch.nn.functional.dropout(attention, self.dropout, self.training)
        edge_index, size = torch.stack([source, target]), (keys.shape[0], asked.shape[0])
        parts = [
            self.pass_messages(edge_index, size, held[:, h], attention[:, h], explained=h == 0)
            for h in range(self.heads)
        ]
        return torch.cat(parts, 1)

    def __repr__(self) -> str:
        options: dict = {"heads": self.heads}
        defaults = {"radius": 1, "dilation": 1, "stencil": "full", "dropout": 0.0}
        for name, default in defaults.items():
            if getattr(self, name) != default:
                options[name] = getattr(self, name)
        return self._format_repr(**options)


def _row_max(scores: Tensor) -> Tensor:
    """Return the maximum over the last axis, which is kept; torch's takes twice as long."""
    while (columns := scores.shape[-1]) > 1:
        half = (columns + 1) // 2
        scores = torch.maximum(scores[..., :half], scores[..., columns - half :])
    return scores


def _stencil(
    lattice: Lattice, points: Incidence | None, radius: int, dilation: int, stencil: str
) -> Tensor:
    """Return the vertices that each vertex, or point, attends to, ``-1`` where absent."""
    neighbors = lattice.neighbors(radius, dilation, stencil)
    if points is None:
        return neighbors
    present = points.vertex >= 0
    corner = torch.where(present, points.weight.detach(), -1.0).argmax(1, keepdim=True)
    nearest = points.vertex.gather(1, corner).squeeze(1)
    padded = torch.cat([neighbors, neighbors.new_full((1, neighbors.shape[1]), -1)])
    return padded[nearest.long()]  # the last row for points without a vertex


def _stencil_of_heads(
    lattice: Lattice,
    points: Incidence | None,
    stencil: tuple[int, int, str],
    heads: int,
) -> Incidence:
    """Return the stencils as an incidence with a row for each query and head.

    The head is the last digit of the rows of queries and of vertices. The weights are to be added
    to scores: 0, or where a vertex is absent a number so small that its share vanishes.
    """

    def make() -> Incidence:
        index = _stencil(lattice, points, *stencil).unsqueeze(1)
        head = torch.arange(heads, device=index.device, dtype=index.dtype).view(1, -1, 1)
        rows = torch.where(index < 0, index, index * heads + head).flatten(0, 1)
        weight = lattice.weight.detach().new_zeros(rows.shape)
        weight = weight.masked_fill(rows < 0, torch.finfo(weight.dtype).min / 2)
        return Incidence(rows, weight, lattice.num_vertices * heads)

    owner = lattice if points is None else points
    return owner.cached(f"attention, {stencil}, {heads}", make)
