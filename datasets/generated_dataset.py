"""Base class of generated datasets."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod

from torch_geometric.data import Data, Dataset

from permutogeo.datasets.shape_dataset import Transform


class GeneratedDataset(Dataset, ABC):
    """Base class of datasets whose samples are generated at first use and then cached.

    Sample ``i`` depends on the seed and on ``i`` alone.

    Args:
        count: Number of samples.
        seed: Random seed.
        transform: Applied at each access.
        pre_transform: Applied once, when a sample is generated.
    """

    def __init__(
        self,
        count: int,
        seed: int,
        transform: Transform | None = None,
        pre_transform: Transform | None = None,
    ):
        super().__init__(None, transform, pre_transform)
        owner = type(self).__name__
        for name, value, least in (("number", count, 1), ("seed", seed, 0)):
            if value < least:
                raise ValueError(f"{owner}: Expected a {name} of {least} or more (got {value})")
        self.seed = seed
        self._cache: list[Data | None] = [None] * count

    @abstractmethod
    def generate(self, index: int) -> Data:
        """Generate the sample of an index."""

    def len(self) -> int:
        return len(self._cache)

    def get(self, idx: int) -> Data:
        sample = self._cache[idx]
        if sample is None:
            sample = self.generate(idx)
            if self.pre_transform is not None:
                sample = self.pre_transform(sample)
            self._cache[idx] = sample
        return copy.copy(sample)
