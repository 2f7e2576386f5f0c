"""Layers whose input channels may be known only at the first call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter, UninitializedParameter
from torch.nn.parameter import is_lazy

from permutogeo.nn._check import check_count
from permutogeo.nn._layer import LatticeLayer


class LazyLayer(LatticeLayer, ABC):
    """Base of the layers that may wait for their input channels, with ``in_channels=-1``.

    Until they are known, what depends on them has no size, neither here nor on disk.
    """

    def __init__(self, in_channels: int, dim: int, groups: int = 1, aggr: str = "sum"):
        super().__init__(dim, groups, aggr)
        if in_channels != -1:
            check_count(self, "in_channels", in_channels)
        self.in_channels = in_channels

    def _sized_parameter(self, *shape: int) -> Any:
        """A parameter whose shape depends on the input channels."""
        return UninitializedParameter() if self.in_channels == -1 else Parameter(torch.empty(shape))

    def _sized_buffer(self, *shape: int) -> Tensor:
        # Not torch's uninitialized buffer, which cannot be copied.
        return torch.empty(0 if self.in_channels == -1 else shape)

    @abstractmethod
    def _shapes(self, channels: int) -> dict[str, tuple[int, ...]]:
        """The tensors that depend on the input channels, as far as the layer has them."""

    @abstractmethod
    def _channels_of(self, saved: Tensor) -> int:
        """The input channels that a tensor from disk was made for."""

    def _check_channels(self, channels: int) -> None:
        """Raise if the layer cannot have so many input channels."""

    @abstractmethod
    def _reset_sized(self) -> None:
        """Start what depends on the input channels."""

    def initialize_parameters(self, x: Tensor) -> None:
        """Size and start what depends on the input channels, if the layer still waits for them."""
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
        # torch cannot detach what has no size yet.
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
