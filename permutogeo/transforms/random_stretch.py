"""Random stretching along the axes."""

from __future__ import annotations

import math

import torch
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.transforms.random_rotation import transform_linearly
from permutogeo.transforms.random_source import RandomSource


class RandomStretch(BaseTransform):
    """Scales each axis by a random factor; normals stay perpendicular to the surface.

    Args:
        low: Smallest factor.
        high: Largest factor. Factors are drawn uniformly in their logarithm.
        seed: Seed that gives the same factors at each call.
        generator: Random number generator; by default torch's global one.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from permutogeo.transforms import RandomStretch
        >>> RandomStretch(0.8, 1.25)(Data(pos=torch.rand(9, 3)))
        Data(pos=[9, 3])
    """

    def __init__(
        self,
        low: float = 0.8,
        high: float = 1.25,
        seed: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        if not 0 < low <= high < math.inf:
            raise ValueError(f"RandomStretch: Expected 0 < low <= high (got {low} and {high})")
        self.low = low
        self.high = high
        self.seed = seed
        self._random = RandomSource("RandomStretch", seed, generator)

    def forward(self, data: Data) -> Data:
        draw = torch.rand(3, generator=self._random(), dtype=torch.float64)
        factor = self.low * (self.high / self.low) ** draw
        transform_linearly(self, data, torch.diag(factor))
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(low={self.low}, high={self.high}, seed={self.seed})"
