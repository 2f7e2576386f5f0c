"""Layers that convolve on the lattice with a stencil."""

from __future__ import annotations

import torch
from torch import Tensor

from permutogeo import stencils
from permutogeo.lattice import Lattice
from permutogeo.nn._check import check_choice, check_count, named
from permutogeo.nn._filter_bank import FilterBankLayer

# What a representation shows only if it is not this.
_DEFAULTS = {
    "groups": 1,
    "dilation": 1,
    "bias": True,
    "shared": False,
    "stencil": "full",
    "residual_to_gaussian": False,
}


class ConvolutionLayer(FilterBankLayer):
    """Base of the layers whose filter is a stencil: how it starts, and the convolution itself."""

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
        check_count(self, "dim", dim)
        check_count(self, "radius", radius, 0)
        check_count(self, "dilation", dilation)
        check_choice(self, "stencil", stencil, ("full", "axis"))
        check_choice(self, "init", init, ("gaussian", "kaiming"))
        gaussian = named(self, stencils.gaussian, dim, radius, stencil)
        super().__init__(in_channels, out_channels, dim, len(gaussian), groups, bias, shared)
        self._gaussian = gaussian  # not a buffer, so that .half() leaves it exact
        self.radius = radius
        self.dilation = dilation
        self.stencil = stencil
        self.init = init
        self.residual_to_gaussian = residual_to_gaussian

    def gaussian(self, like: Tensor) -> Tensor:
        """The Gaussian of the layer's own stencil, ``[K]``."""
        return self._gaussian.to(like.device, like.dtype)

    @torch.no_grad()
    def _reset_filter(self) -> None:
        if self.init == "kaiming":
            super()._reset_filter()
            return
        weight = self.filter_weight
        assert weight is not None
        start = weight.new_zeros(weight.shape) if self.residual_to_gaussian else self._identity()
        if not self.shared:
            # Outputs without an input of their own: the Gaussian of a random mix of the inputs.
            width = weight.shape[1]
            more = torch.randn_like(weight[0]).view(width, self.groups, -1)[..., width:]
            mix = self.gaussian(weight).view(-1, 1, 1, 1) * more / max(1, width) ** 0.5
            start.view(len(start), width, self.groups, -1)[..., width:] = mix
        weight.copy_(start)

    def _identity(self) -> Tensor:
        """The Gaussian that leaves channels where they are, in the shape of the filter."""
        weight = self.filter_weight
        assert weight is not None
        if self.shared:
            return self.gaussian(weight)
        width, out = weight.shape[1], self.out_channels // self.groups
        eye = torch.eye(width, out, dtype=weight.dtype, device=weight.device)
        return self.gaussian(weight).view(-1, 1, 1) * eye.repeat(1, self.groups)

    def effective_filter(self) -> Tensor:
        """The filter that is applied: ``filter_weight``, plus the Gaussian if that is its base."""
        assert self.filter_weight is not None
        if self.residual_to_gaussian:
            return self._identity() + self.filter_weight
        return self.filter_weight

    def convolve(self, lattice: Lattice, values: Tensor, explained: bool = False) -> Tensor:
        """The learned filter on vertices."""
        weight = self.effective_filter()
        if self.fused:
            return lattice.convolve(
                values, weight, self.radius, self.groups, self.dilation, self.stencil, self.shared
            )
        edges = lattice.neighbor_graph(self.radius, self.dilation, self.stencil)
        edge_index, edge_type = edges
        size = (lattice.num_vertices, lattice.num_vertices)
        if self.shared:
            tap = weight[edge_type]
            return self.send(edge_index, size, values, tap, explained=explained)
        return self.send(edge_index, size, values, None, edge_type, weight, explained=explained)

    def _options(self) -> dict:
        """What a representation shows."""
        values = {name: getattr(self, name) for name in _DEFAULTS}
        values["bias"] = self.bias is not None
        changed = {name: value for name, value in values.items() if value != _DEFAULTS[name]}
        return {"radius": self.radius, **changed}
