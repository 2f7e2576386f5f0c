"""Fixed or learned feature bandwidths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from permutogeo.checks import fail
from permutogeo.runtime import memory


class Bandwidth(Module):
    """Divide features by their bandwidths.

    Args:
        layer: The layer that owns the bandwidths, named in errors.
        dim: Number of features.
        sigma: Bandwidth, one for all features or one for each.
        learn: If ``True``, the logarithms of the bandwidths are learned.
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
        """Resets all learnable parameters."""
        if self.log_sigma is not None:
            with torch.no_grad():
                self.log_sigma.copy_(torch.tensor(self.initial).log())

    @property
    def learned(self) -> bool:
        """Whether the bandwidths are parameters."""
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
        sigma = torch.tensor(self.initial, dtype=feature.dtype, device="cpu")
        return memory.apply(torch.div, feature, memory.upload(sigma, feature.device))
