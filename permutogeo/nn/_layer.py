"""What the layers share: each pass over a lattice, by its kernels or message by message."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.typing import OptTensor

from permutogeo import stencils
from permutogeo.incidence import Incidence
from permutogeo.lattice import Lattice
from permutogeo.nn._check import check_count, fail

_HOOKS = tuple(
    f"_{function}_forward_{when}hooks"
    for function in ("propagate", "message", "aggregate")
    for when in ("pre_", "")
)


class LatticeLayer(MessagePassing):
    """Base of the layers: splat, blur, convolve and slice as passes of messages.

    Each pass runs in the lattice's own kernels while :attr:`fused` holds, and else through
    :meth:`propagate`, over the edges that :meth:`permutogeo.Lattice.incidence_graph` and
    :meth:`permutogeo.Lattice.neighbor_graph` give.

    An edge mask of an explainer belongs to the first pass of a layer: the splat, where it has one.
    """

    propagate_type = {  # noqa: RUF012  PyG's way to declare what `propagate` takes
        "x": Tensor,
        "edge_weight": OptTensor,
        "edge_type": OptTensor,
        "filter_weight": OptTensor,
        "explained": bool,
    }

    def __init__(self, dim: int, groups: int = 1, aggr: str = "sum"):
        super().__init__(aggr=aggr, node_dim=0)
        check_count(self, "dim", dim)
        self.dim = dim
        self.groups = groups
        self.fuse = True

    @property
    def fused(self) -> bool:
        """Whether the kernels run: not while explaining, with hooks, or if ``fuse`` is off."""
        if not self.fuse or self.explain or self.decomposed_layers > 1:
            return False
        return not any(len(getattr(self, hooks)) for hooks in _HOOKS)

    def splat(self, lattice: Lattice, x: Tensor, at: Incidence | None = None) -> Tensor:
        """Values at points to values at vertices."""
        if self.fused:
            return lattice.splat(x, at)
        edge_index, edge_weight = lattice._incidence(at).edges()
        size = (x.shape[0], lattice.num_vertices)
        return self.send(edge_index, size, x, edge_weight, explained=True)

    def slice(
        self,
        lattice: Lattice,
        values: Tensor,
        at: Incidence | None = None,
        explained: bool = False,
    ) -> Tensor:
        """Values at vertices to values at points."""
        if self.fused:
            return lattice.slice(values, at)
        points = lattice._incidence(at)
        edge_index, edge_weight = points.edges()
        size = (lattice.num_vertices, points.num_points)
        return self.send(edge_index.flip(0), size, values, edge_weight, explained=explained)

    def blur(self, lattice: Lattice, values: Tensor) -> Tensor:
        """The separable Gaussian, one pass of messages along each axis."""
        if self.fused:
            return lattice.blur(values)
        radius, taps = len(lattice.taps) // 2, lattice.taps
        edge_index, edge_type = lattice.neighbor_graph(radius, stencil="axis")
        sides = values.new_tensor([tap for tap in taps[radius + 1 :] for _ in range(2)])
        for columns in stencils.axis_columns(lattice.dim, radius).long().to(values.device):
            tap = values.new_zeros(stencils.num_taps(lattice.dim, radius, "axis"))
            tap[0] = taps[radius]
            tap[columns] = sides
            values = self.send(edge_index, (lattice.num_vertices,) * 2, values, tap[edge_type])
        return values / sum(tap ** (lattice.dim + 1) for tap in taps)

    def send(
        self,
        edge_index: Tensor,
        size: tuple[int, int],
        x: Tensor,
        edge_weight: Tensor | None = None,
        edge_type: Tensor | None = None,
        filter_weight: Tensor | None = None,
        explained: bool = False,
    ) -> Tensor:
        """One pass of messages: weighted, through a matrix for each type, or as they are."""
        if filter_weight is not None and self.decomposed_layers > 1:
            fail(
                self,
                f"Expected 'decomposed_layers' of 1, since the filter mixes channels "
                f"(got {self.decomposed_layers})",
            )
        return self.propagate(
            edge_index,
            size=size,
            x=x,
            edge_weight=edge_weight,
            edge_type=edge_type,
            filter_weight=filter_weight,
            explained=explained,
        )

    def message(
        self,
        x_j: Tensor,
        edge_weight: OptTensor,
        edge_type: OptTensor,
        filter_weight: OptTensor,
    ) -> Tensor:
        if filter_weight is not None and edge_type is not None:
            return _typed_product(x_j, filter_weight, edge_type, self.groups)
        return x_j if edge_weight is None else edge_weight.to(x_j.dtype).view(-1, 1) * x_j

    def explain_message(self, inputs: Tensor, dim_size: int | None, explained: bool) -> Tensor:
        if not explained:
            return inputs
        if self._edge_mask is not None and len(self._edge_mask) != len(inputs):
            fail(
                self,
                f"Expected an edge mask of {len(inputs)} entries, one for each edge of the first "
                f"pass (got {len(self._edge_mask)}); set 'explain' to False on layers that it is "
                f"not for",
            )
        return super().explain_message(inputs, dim_size)

    def _named(self, **options: Any) -> str:
        """The one-line representation: class, sizes and the options that are not the default."""
        shown = [f"{name}={value!r}" for name, value in options.items()]
        sizes = [str(getattr(self, name)) for name in ("in_channels", "out_channels")]
        return f"{type(self).__name__}({', '.join([*sizes, f'dim={self.dim}', *shown])})"


def _typed_product(x: Tensor, filter_weight: Tensor, edge_type: Tensor, groups: int) -> Tensor:
    """Row ``e`` of ``x`` times matrix ``edge_type[e]``, ``[E, C_out]``."""
    width, out_channels = filter_weight.shape[1:]
    dtype = torch.promote_types(x.dtype, filter_weight.dtype)
    order = edge_type.argsort(stable=True)
    counts = torch.bincount(edge_type, minlength=len(filter_weight)).tolist()
    rows = x.to(dtype)[order].view(-1, groups, width).split(counts)
    matrices = filter_weight.to(dtype).view(len(filter_weight), width, groups, -1)
    with torch.autocast(x.device.type, enabled=False):
        products = [
            torch.einsum("egi,igo->ego", row, matrix)
            for row, matrix in zip(rows, matrices, strict=True)
        ]
    return torch.cat(products).reshape(-1, out_channels)[order.argsort()]
