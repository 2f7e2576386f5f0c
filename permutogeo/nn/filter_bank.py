"""Base classes of the layers with a filter bank."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn import inits

from permutogeo.checks import check_choice, check_integer, fail, prefix_errors
from permutogeo.lattice import Lattice
from permutogeo.nn.layer import LazyLayer
from permutogeo.ops import stencils


class FilterBankLayer(LazyLayer):
    """Base class of the layers with a ``filter_weight``: its shape and initialization.

    Args:
        num_taps: Number of taps, or 0 for a layer without a filter.
        shared: One scalar filter ``[K]`` for all channels.
    """

    filter_weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        dim: int,
        num_taps: int,
        groups: int,
        bias: bool,
        shared: bool = False,
        aggr: str = "sum",
    ):
        super().__init__(in_channels, dim, groups, aggr)
        check_integer(self, "out_channels", out_channels)
        check_integer(self, "groups", groups)
        self.out_channels = out_channels
        self.num_taps = num_taps
        self.shared = shared
        self._check_channels(in_channels)
        if num_taps == 0:
            self.register_parameter("filter_weight", None)
        elif shared:
            self.filter_weight = Parameter(torch.empty(num_taps))
        else:
            width = in_channels // groups
            self.filter_weight = self._sized_parameter(num_taps, width, out_channels)
        if bias:
            self.bias = Parameter(torch.empty(out_channels))
        else:
            self.register_parameter("bias", None)

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        super().reset_parameters()
        if self.filter_weight is not None and (self.shared or self.in_channels != -1):
            self._reset_filter()
        inits.zeros(self.bias)

    def _reset_filter(self) -> None:
        """Initialize uniformly (He et al., 2015), with the fan-in of the taps and channels."""
        fan = self._fan_taps * (1 if self.shared else self.in_channels // self.groups)
        inits.kaiming_uniform(self.filter_weight, fan=fan, a=0.0)

    @property
    def _fan_taps(self) -> int:
        """Number of taps that count in the fan-in of an output."""
        return self.num_taps

    @property
    def _mixes_channels(self) -> bool:
        """Whether the layer has a matrix for each tap, not one scalar or no filter."""
        return self.num_taps > 0 and not self.shared

    def _shapes(self, channels: int) -> dict[str, tuple[int, ...]]:
        if not self._mixes_channels:
            return {}
        return {"filter_weight": (self.num_taps, channels // self.groups, self.out_channels)}

    def _channels_of(self, saved: Tensor) -> int:
        return saved.shape[1] * self.groups

    def _reset_sized(self) -> None:
        if self._mixes_channels:
            self._reset_filter()

    def _check_channels(self, channels: int) -> None:
        if channels != -1 and not self._mixes_channels and channels != self.out_channels:
            fail(
                self,
                f"Expected 'out_channels' equal to the {channels} input channels, since the "
                f"layer does not mix channels (got {self.out_channels})",
            )
        for name, count in (("in", channels), ("out", self.out_channels)):
            if count != -1 and count % self.groups:
                fail(
                    self,
                    f"Expected 'groups' to divide the {count} {name}put channels "
                    f"(got {self.groups})",
                )


# Options that a representation shows if they differ from these.
_DEFAULTS = {
    "groups": 1,
    "dilation": 1,
    "bias": True,
    "shared": False,
    "stencil": "full",
    "residual_to_gaussian": False,
}


class ConvolutionLayer(FilterBankLayer):
    """Base class of the layers that convolve over a stencil."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        dim: int,
        radius: int,
        groups: int,
        dilation: int,
        bias: bool,
        shared: bool,
        stencil: str,
        init: str,
        residual_to_gaussian: bool,
    ):
        check_integer(self, "dim", dim)
        check_integer(self, "radius", radius, 0)
        check_integer(self, "dilation", dilation)
        check_choice(self, "stencil", stencil, ("full", "axis"))
        check_choice(self, "init", init, ("gaussian", "kaiming"))
        gaussian = prefix_errors(self, stencils.gaussian, dim, radius, stencil)
        super().__init__(in_channels, out_channels, dim, len(gaussian), groups, bias, shared)
        self._gaussian = gaussian  # no buffer: .half() would round it
        self.radius = radius
        self.dilation = dilation
        self.stencil = stencil
        self.init = init
        self.residual_to_gaussian = residual_to_gaussian

    def gaussian(self, like: Tensor) -> Tensor:
        """The Gaussian on the stencil, ``[K]``, in the type and on the device of ``like``."""
        return self._gaussian.to(like.device, like.dtype, non_blocking=True)

    @torch.no_grad()
    def _reset_filter(self) -> None:
        if self.init == "kaiming":
            super()._reset_filter()
            return
        weight = self.filter_weight
        assert weight is not None
        start = weight.new_zeros(weight.shape) if self.residual_to_gaussian else self._identity()
        if not self.shared:
            # Output channels beyond the input channels: the Gaussian of a random mix of inputs.
            width = weight.shape[1]
            more = torch.randn_like(weight[0]).view(width, self.groups, -1)[..., width:]
            mix = self.gaussian(weight).view(-1, 1, 1, 1) * more / max(1, width) ** 0.5
            start.view(len(start), width, self.groups, -1)[..., width:] = mix
        weight.copy_(start)

    def _identity(self) -> Tensor:
        """Return the Gaussian of each channel by itself, in the shape of the filter."""
        weight = self.filter_weight
        assert weight is not None
        if self.shared:
            return self.gaussian(weight)
        width, out = weight.shape[1], self.out_channels // self.groups
        eye = torch.eye(width, out, dtype=weight.dtype, device=weight.device)
        return self.gaussian(weight).view(-1, 1, 1) * eye.repeat(1, self.groups)

    def effective_filter(self) -> Tensor:
        """Return the applied filter: ``filter_weight``, plus the Gaussian if it is a residual."""
        weight = self.filter_weight
        assert weight is not None
        return self._identity() + weight if self.residual_to_gaussian else weight

    def convolve(self, lattice: Lattice, values: Tensor, explained: bool = False) -> Tensor:
        """Convolve values at vertices with the learned filter."""
        weight = self.effective_filter()
        if self.fused:
            return lattice.apply_filter(
                values, weight, self.radius, self.groups, self.dilation, self.stencil, self.shared
            )
        edges = lattice.neighbor_graph(self.radius, self.dilation, self.stencil)
        edge_index, edge_type = edges
        size = (lattice.num_vertices, lattice.num_vertices)
        if self.shared:
            tap = weight[edge_type]
            return self.pass_messages(edge_index, size, values, tap, explained=explained)
        return self.pass_messages(
            edge_index, size, values, None, edge_type, weight, explained=explained
        )

    def _options(self) -> dict:
        """Return the options that the representation shows."""
        values = {name: getattr(self, name) for name in _DEFAULTS}
        values["bias"] = self.bias is not None
        changed = {name: value for name, value in values.items() if value != _DEFAULTS[name]}
        return {"radius": self.radius, **changed}
