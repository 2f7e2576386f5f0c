"""Random removal of points."""

from __future__ import annotations

import torch
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.data.require import require_pos, require_single
from permutogeo.transforms.random_source import RandomSource
from permutogeo.transforms.random_subsample import keep_points


class RandomDrop(BaseTransform):
    """Drops a random fraction of the points, with all their attributes.

    The fraction itself is random, so that a network meets clouds of all densities;
    :class:`RandomSubsample` keeps a given number. At least one point is kept. Attributes that refer
    to points by index (``face``, ``face_*``, ``edge_index``, …) are dropped.

    Args:
        most: Largest fraction of the points to drop, in [0, 1].
        seed: Seed that drops the same points at each call.
        generator: Random number generator; by default torch's global one.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from permutogeo.transforms import RandomDrop
        >>> 50 <= RandomDrop(0.5)(Data(pos=torch.rand(100, 3))).num_nodes <= 100
        True
    """

    def __init__(
        self,
        most: float = 0.5,
        seed: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        if not 0.0 <= most <= 1.0:
            raise ValueError(f"RandomDrop: Expected 'most' from 0 to 1 (got {most})")
        self.most = most
        self.seed = seed
        self._random = RandomSource("RandomDrop", seed, generator)

    def forward(self, data: Data) -> Data:
        require_single(self, data)
        total, generator = len(require_pos(self, data)), self._random()
        fraction = self.most * float(torch.rand((), generator=generator))
        count = min(total, max(1, round((1 - fraction) * total)))
        keep_points(data, torch.randperm(total, generator=generator)[:count].sort().values)
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(most={self.most}, seed={self.seed})"
