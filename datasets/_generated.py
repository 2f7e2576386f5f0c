"""Base of the datasets that are made, not read."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod

from torch_geometric.data import Data, Dataset

from permutogeo.datasets._shapes import Transform


class GeneratedShapes(Dataset, ABC):
    """Shapes made at their first use and then kept; shape ``i`` depends on the seed and ``i``.

    Args:
        count: How many shapes there are.
        seed: Of the shapes; other seeds give other shapes.
        transform: Applied at each access.
        pre_transform: Applied once, when a shape is made.
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
        self._made: list[Data | None] = [None] * count

    @abstractmethod
    def make(self, index: int) -> Data:
        """The shape of that index, new."""

    def len(self) -> int:
        return len(self._made)

    def get(self, idx: int) -> Data:
        shape = self._made[idx]
        if shape is None:
            shape = self.make(idx)
            if self.pre_transform is not None:
                shape = self.pre_transform(shape)
            self._made[idx] = shape
        return copy.copy(shape)
