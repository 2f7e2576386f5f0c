"""Base classes of the lattice layers: fused kernels or PyG message passing, lazy channels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter, UninitializedParameter
from torch.nn.parameter import is_lazy
from torch_geometric.nn import MessagePassing
from torch_geometric.typing import OptTensor

from permutogeo.checks import check_integer, check_matrix, check_parameters, fail
from permutogeo.lattice import Incidence, Lattice
from permutogeo.lattice.points import check_lattice
from permutogeo.lattice.precision import widened
from permutogeo.ops import stencils


class LatticeLayer(MessagePassing):
    """Base class of the lattice layers: splat, blur, convolve and slice.

    While :attr:`fused` holds, these run in the lattice's kernels. Otherwise they run through
    :meth:`propagate`, over the edges of :meth:`permutogeo.Lattice.incidence_graph` and
    :meth:`permutogeo.Lattice.neighbor_graph`. An explainer's edge mask applies to the first pass of
    a layer, which is the splat if it has one.
    """

    propagate_type = {  # noqa: RUF012  as PyG declares it
        "x": Tensor,
        "edge_weight": OptTensor,
        "edge_type": OptTensor,
        "filter_weight": OptTensor,
        "explained": bool,
    }

    def __init__(self, dim: int, groups: int = 1, aggr: str = "sum"):
        super().__init__(aggr=aggr, node_dim=0)
        check_integer(self, "dim", dim)
        self.dim = dim
        self.groups = groups
        self.fuse = True

    @property
    def fused(self) -> bool:
        """If fused kernels run; they do not while explaining, with hooks, or if ``fuse`` is off."""
        return self.fuse and not (
            self._explain
            or self._decomposed_layers > 1
            or self._propagate_forward_pre_hooks
            or self._propagate_forward_hooks
            or self._message_forward_pre_hooks
            or self._message_forward_hooks
            or self._aggregate_forward_pre_hooks
            or self._aggregate_forward_hooks
        )

    def splat(self, lattice: Lattice, x: Tensor, at: Incidence | None = None) -> Tensor:
        """Splat values at points onto vertices; ``at`` was checked."""
        if self.fused:
            return (lattice.incidence if at is None else at).splat(x)
        edge_index, edge_weight = lattice.incidence_at(at).edges()
        size = (x.shape[0], lattice.num_vertices)
        return self.pass_messages(edge_index, size, x, edge_weight, explained=True)

    def slice(
        self,
        lattice: Lattice,
        values: Tensor,
        at: Incidence | None = None,
        explained: bool = False,
    ) -> Tensor:
        """Slice values at vertices at points; ``at`` was checked."""
        if self.fused:
            return (lattice.incidence if at is None else at).slice(values)
        points = lattice.incidence_at(at)
        edge_index, edge_weight = points.edges()
        size = (lattice.num_vertices, points.num_points)
        return self.pass_messages(
            edge_index.flip(0), size, values, edge_weight, explained=explained
        )

    def blur(self, lattice: Lattice, values: Tensor) -> Tensor:
        """Apply the separable Gaussian blur, axis by axis."""
        if self.fused:
            return lattice.blur(values)
        radius, taps = len(lattice.taps) // 2, lattice.taps
        edge_index, edge_type = lattice.neighbor_graph(radius, stencil="axis")
        sides = values.new_tensor([tap for tap in taps[radius + 1 :] for _ in range(2)])
        for columns in stencils.axis_columns(lattice.dim, radius).long().to(values.device):
            tap = values.new_zeros(stencils.num_taps(lattice.dim, radius, "axis"))
            tap[0] = taps[radius]
            tap[columns] = sides
            values = self.pass_messages(
                edge_index, (lattice.num_vertices,) * 2, values, tap[edge_type]
            )
        return values / sum(tap ** (lattice.dim + 1) for tap in taps)

    def pass_messages(
        self,
        edge_index: Tensor,
        size: tuple[int, int],
        x: Tensor,
        edge_weight: Tensor | None = None,
        edge_type: Tensor | None = None,
        filter_weight: Tensor | None = None,
        explained: bool = False,
    ) -> Tensor:
        """Sum the messages along edges: ``x_j``, or ``edge_weight * x_j``, or ``x_j`` times the
        matrix of ``filter_weight`` that ``edge_type`` selects."""
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
                f"pass (got {len(self._edge_mask)}); set 'explain' to False on layers without a "
                f"mask",
            )
        return super().explain_message(inputs, dim_size)

    def _format_repr(self, **options: Any) -> str:
        """Return ``Class(in, out, dim=..., options)``."""
        shown = [f"{name}={value!r}" for name, value in options.items()]
        sizes = [str(getattr(self, name)) for name in ("in_channels", "out_channels")]
        return f"{type(self).__name__}({', '.join([*sizes, f'dim={self.dim}', *shown])})"


class LazyLayer(LatticeLayer, ABC):
    """Base class of the layers that accept ``in_channels=-1``.

    Parameters and buffers whose shape depends on the input channels stay uninitialized, also in a
    state dict, until the first call or until a state dict with their shape is loaded.
    """

    def __init__(self, in_channels: int, dim: int, groups: int = 1, aggr: str = "sum"):
        super().__init__(dim, groups, aggr)
        if in_channels != -1:
            check_integer(self, "in_channels", in_channels)
        self.in_channels = in_channels

    def _sized_parameter(self, *shape: int) -> Any:
        """Return a parameter whose shape depends on the input channels."""
        return UninitializedParameter() if self.in_channels == -1 else Parameter(torch.empty(shape))

    def _sized_buffer(self, *shape: int) -> Tensor:
        # UninitializedBuffer cannot be copied.
        return torch.empty(0 if self.in_channels == -1 else shape)

    @abstractmethod
    def _shapes(self, channels: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of each tensor that depends on the input channels."""

    @abstractmethod
    def _channels_of(self, saved: Tensor) -> int:
        """Return the input channels of a tensor from a state dict."""

    def _check_channels(self, channels: int) -> None:
        """Raise if the layer does not support this number of input channels."""

    @abstractmethod
    def _reset_sized(self) -> None:
        """Reset the tensors that depend on the input channels."""

    def receive(self, values: Tensor, lattice: Lattice) -> Tensor:
        """Check the arguments of a call and return the values in the type of sums.

        Args:
            values: Values at the vertices of ``lattice``.
            lattice: The lattice.
        """
        check_lattice(self, "lattice", lattice)
        check_matrix(
            self,
            "values",
            values,
            device=lattice.code.device,
            rows=lattice.code.shape[0],
            channels=self.in_channels,
            of="vertices of 'lattice'",
        )
        if self.in_channels == -1:
            self.initialize_parameters(values)
        check_parameters(self, values, "'values'")
        return widened(values)

    def initialize_parameters(self, x: Tensor) -> None:
        """In the first call, create the tensors that depend on the input channels."""
        if self.in_channels == -1:
            channels = int(x.shape[1])
            self._check_channels(channels)
            self._materialize(channels, x.device)
            self._reset_sized()

    def _materialize(self, channels: int, device: torch.device | None = None) -> None:
        self.in_channels = channels
        for name, shape in self._shapes(channels).items():
            tensor = getattr(self, name)
            if isinstance(tensor, UninitializedParameter):
                tensor.materialize(shape, device)
            else:
                setattr(self, name, tensor.new_empty(shape, device=device or tensor.device))

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        # torch cannot detach uninitialized parameters.
        waiting = {name: each for name, each in self._parameters.items() if is_lazy(each)}
        self._parameters.update(dict.fromkeys(waiting))
        super()._save_to_state_dict(destination, prefix, keep_vars)
        self._parameters.update(waiting)
        destination.update({prefix + name: each for name, each in waiting.items()})

    def _load_from_state_dict(
        self, state_dict: dict, prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        for name, shape in self._shapes(1).items() if self.in_channels == -1 else ():
            saved = state_dict.get(prefix + name)
            if isinstance(saved, Tensor) and not is_lazy(saved) and saved.dim() == len(shape):
                if saved.numel():
                    self._materialize(self._channels_of(saved))
                break
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def _typed_product(x: Tensor, filter_weight: Tensor, edge_type: Tensor, groups: int) -> Tensor:
    """Return row ``e`` of ``x`` times matrix ``edge_type[e]``, ``[E, C_out]``."""
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
