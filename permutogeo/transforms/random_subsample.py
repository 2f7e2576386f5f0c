"""Random subsets of points."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.data.require import is_point_attribute, require_single
from permutogeo.transforms.random_source import RandomSource


class RandomSubsample(BaseTransform):
    r"""Keeps a random subset of the points, in their order, with all point attributes.

    Attributes that refer to points by index (``face``, ``face_*``, ``edge_index``, …) are dropped:
    a subsampled mesh is a point cloud.

    Args:
        fraction: Fraction of the points to keep, in (0, 1].
        count: Number of points to keep.
        replace: Draw with replacement, so that ``count`` may exceed the number of points.
        seed: Seed that gives the same points at each call.
        generator: Random number generator; by default torch's global one.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from permutogeo.transforms import RandomSubsample
        >>> RandomSubsample(fraction=0.5)(Data(pos=torch.rand(100, 3), x=torch.rand(100, 1)))
        Data(x=[50, 1], pos=[50, 3])
    """

    def __init__(
        self,
        fraction: float | None = None,
        count: int | None = None,
        replace: bool = False,
        seed: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        if (fraction is None) == (count is None):
            got = "neither" if fraction is None else "both"
            raise ValueError(f"RandomSubsample: Expected 'fraction' or 'count' (got {got})")
        if fraction is not None and not 0.0 < fraction <= 1.0:
            raise ValueError(f"RandomSubsample: Expected 'fraction' in (0, 1] (got {fraction})")
        if count is not None and count < 1:
            raise ValueError(f"RandomSubsample: Expected 'count' >= 1 (got {count})")
        self.fraction = fraction
        self.count = count
        self.replace = replace
        self.seed = seed
        self._random = RandomSource("RandomSubsample", seed, generator)

    def forward(self, data: Data) -> Data:
        require_single(self, data)
        total = data.num_nodes or 0
        count = self.count
        if count is None:
            count = max(1, round((self.fraction or 1.0) * total))
        if total == 0 or (count > total and not self.replace):
            raise ValueError(f"RandomSubsample: Expected at least {count} points (got {total})")
        generator = self._random()
        if self.replace:
            chosen = torch.randint(total, (count,), generator=generator).sort().values
        else:
            chosen = torch.randperm(total, generator=generator)[:count].sort().values
        keep_points(data, chosen)
        return data

    def __repr__(self) -> str:
        size = f"fraction={self.fraction}" if self.count is None else f"count={self.count}"
        return f"{type(self).__name__}({size}, replace={self.replace}, seed={self.seed})"


def keep_points(data: Data, chosen: Tensor) -> None:
    """Keep the chosen points and their attributes, and drop what refers to points by index.

    Args:
        data: Changed: pass a copy, as PyG does.
        chosen: Indices of the points.
    """
    total = data.num_nodes or 0
    for name, value in data.to_dict().items():
        if is_point_attribute(name, value, total):
            data[name] = value[chosen.to(value.device)]
        elif name.startswith(("face", "edge_")) or "index" in name:
            del data[name]
    if "num_nodes" in data:
        data.num_nodes = len(chosen)
