"""Bandwidths of features, fixed or learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from permutogeo import _warp
from permutogeo.nn._check import fail


class Bandwidth(Module):
    """What features are divided by: one positive number for each.

    Args:
        layer: Whose bandwidth it is, for its errors.
        dim: Number of features.
        sigma: One number for all, or one for each.
        learn: Learn them; they stay positive.
    """

    log_sigma: Parameter | None

    def __init__(self, layer: Any, dim: int, sigma: float | Sequence[float], learn: bool):
        super().__init__()
        each = [sigma] * dim if isinstance(sigma, int | float) else list(sigma)
        if len(each) != dim or not all(0 < value < float("inf") for value in each):
            fail(
                layer,
                f"Expected 'sigma' to be one positive number, or one for each of the {dim} "
                f"features (got {sigma})",
            )
        self.initial = [float(value) for value in each]
        self.register_parameter("log_sigma", Parameter(torch.empty(dim)) if learn else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.log_sigma is not None:
            with torch.no_grad():
                self.log_sigma.copy_(torch.tensor(self.initial).log())

    @property
    def learned(self) -> bool:
        return self.log_sigma is not None

    @property
    def sigma(self) -> Tensor:
        """The bandwidth of each feature, ``[d]``."""
        return torch.tensor(self.initial) if self.log_sigma is None else self.log_sigma.exp()

    def forward(self, feature: Tensor) -> Tensor:
        if self.log_sigma is not None:
            return feature / self.log_sigma.exp()
        if all(value == 1 for value in self.initial):
            return feature
        return _warp.apply(torch.div, feature, feature.new_tensor(self.initial))
