"""Random displacement of points."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.data.require import require_pos
from permutogeo.transforms.random_source import RandomSource


class RandomJitter(BaseTransform):
    """Moves each point by Gaussian noise, and turns its normal by Gaussian noise if there is one.

    Args:
        std: Standard deviation of each coordinate, in the units of the positions.
        normal_std: Standard deviation of each coordinate of the noise on unit normals.
        seed: Seed that gives the same noise at each call.
        generator: Random number generator; by default torch's global one.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from permutogeo.transforms import RandomJitter
        >>> RandomJitter(0.01)(Data(pos=torch.rand(9, 3)))
        Data(pos=[9, 3])
    """

    def __init__(
        self,
        std: float,
        normal_std: float = 0.0,
        seed: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        for name, value in (("std", std), ("normal_std", normal_std)):
            if not 0 <= value < math.inf:
                raise ValueError(f"RandomJitter: Expected a finite '{name}' >= 0 (got {value})")
        self.std = std
        self.normal_std = normal_std
        self.seed = seed
        self._random = RandomSource("RandomJitter", seed, generator)

    def forward(self, data: Data) -> Data:
        pos, generator = require_pos(self, data), self._random()
        data.pos = pos + self.std * torch.randn(pos.shape, generator=generator).to(pos)
        normal = data.get("normal")
        if isinstance(normal, Tensor) and self.normal_std > 0:
            noise = torch.randn(normal.shape, generator=generator).to(normal)
            turned = normal + self.normal_std * noise
            data.normal = torch.nn.functional.normalize(turned, dim=1)
        return data

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(std={self.std}, normal_std={self.normal_std}, seed={self.seed})"
        )
