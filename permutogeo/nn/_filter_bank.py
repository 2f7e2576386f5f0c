"""Layers with a filter bank, whose input channels may be known only at the first call."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter, UninitializedParameter
from torch_geometric.nn import inits

from permutogeo.nn._check import check_count, fail
from permutogeo.nn._layer import LatticeLayer


class FilterBankLayer(LatticeLayer):
    """Base of the layers with a ``filter_weight``: its size, its start, its way to disk.

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
        super().__init__(dim, groups, aggr)
        if in_channels != -1:
            check_count(self, "in_channels", in_channels)
        check_count(self, "out_channels", out_channels)
        check_count(self, "groups", groups)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.num_taps = num_taps
        self.shared = shared
        self._check_channels(in_channels)
        if num_taps == 0:
            self.register_parameter("filter_weight", None)
        elif in_channels == -1 and not shared:
            self.register_parameter("filter_weight", UninitializedParameter())
        else:
            self.filter_weight = Parameter(torch.empty(self._filter_shape(in_channels)))
        if bias:
            self.bias = Parameter(torch.empty(out_channels))
        else:
            self.register_parameter("bias", None)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if self.filter_weight is not None and not self._waiting:
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
    def _waiting(self) -> bool:
        return isinstance(self.filter_weight, UninitializedParameter)

    def initialize_parameters(self, x: Tensor) -> None:
        """Size and start what depends on the input channels, if the layer still waits for them."""
        if self.in_channels != -1:
            return
        self._check_channels(int(x.shape[1]))
        self._materialize(int(x.shape[1]), x.device)
        if not self.shared and self.filter_weight is not None:
            self._reset_filter()

    def _materialize(self, channels: int, device: torch.device | None = None) -> None:
        self.in_channels = channels
        if self._waiting:
            self.filter_weight.materialize(self._filter_shape(channels), device)  # type: ignore

    def _filter_shape(self, channels: int) -> tuple[int, ...]:
        if self.shared:
            return (self.num_taps,)
        return (self.num_taps, channels // self.groups, self.out_channels)

    @property
    def _mixes(self) -> bool:
        """Whether the output's channels may differ from the input's."""
        return self.num_taps > 0 and not self.shared

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

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        waiting = self.filter_weight if self._waiting else None
        if waiting is None:
            super()._save_to_state_dict(destination, prefix, keep_vars)
            return
        # torch cannot detach what has no size yet.
        self._parameters["filter_weight"] = None
        super()._save_to_state_dict(destination, prefix, keep_vars)
        self._parameters["filter_weight"] = waiting
        destination[prefix + "filter_weight"] = waiting

    def _load_from_state_dict(
        self, state_dict: dict, prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        saved = state_dict.get(prefix + "filter_weight")
        sized = isinstance(saved, Tensor) and not isinstance(saved, UninitializedParameter)
        if self._waiting and sized and len(saved.shape) == 3:  # type: ignore[union-attr]
            self._materialize(saved.shape[1] * self.groups)  # type: ignore[union-attr]
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
