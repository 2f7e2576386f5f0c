"""Layers with a filter bank."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn import inits

from permutogeo.nn._check import check_count, fail
from permutogeo.nn._lazy import LazyLayer


class FilterBankLayer(LazyLayer):
    """Base of the layers with a ``filter_weight``: its size and its start.

    Args:
        num_taps: Entries of the stencil, or 0 for no filter at all.
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
        check_count(self, "out_channels", out_channels)
        check_count(self, "groups", groups)
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
        super().reset_parameters()
        if self.filter_weight is not None and (self.shared or self.in_channels != -1):
            self._reset_filter()
        inits.zeros(self.bias)

    def _reset_filter(self) -> None:
        """Uniform after He et al. (2015), for the taps and channels that an output reads."""
        fan = self._taps_read * (1 if self.shared else self.in_channels // self.groups)
        inits.kaiming_uniform(self.filter_weight, fan=fan, a=0.0)

    @property
    def _taps_read(self) -> int:
        """How many taps an output reads."""
        return self.num_taps

    @property
    def _mixes(self) -> bool:
        """Whether the output's channels may differ from the input's."""
        return self.num_taps > 0 and not self.shared

    def _shapes(self, channels: int) -> dict[str, tuple[int, ...]]:
        if not self._mixes:
            return {}
        return {"filter_weight": (self.num_taps, channels // self.groups, self.out_channels)}

    def _channels_of(self, saved: Tensor) -> int:
        return saved.shape[1] * self.groups

    def _reset_sized(self) -> None:
        if self._mixes:
            self._reset_filter()

    def _check_channels(self, channels: int) -> None:
        if channels != -1 and not self._mixes and channels != self.out_channels:
            fail(
                self,
                f"Expected 'out_channels' equal to the {channels} input channels, since nothing "
                f"mixes channels (got {self.out_channels})",
            )
        for name, count in (("in", channels), ("out", self.out_channels)):
            if count != -1 and count % self.groups:
                fail(
                    self,
                    f"Expected 'groups' to divide the {count} {name}put channels "
                    f"(got {self.groups})",
                )
