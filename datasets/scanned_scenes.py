"""Base class of generated scenes, seen by a scanner."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from torch_geometric.data import Data

from permutogeo.datasets.generated_dataset import GeneratedDataset
from permutogeo.datasets.shape_dataset import Transform, split_parts
from permutogeo.typing import Array

_PARTS = ("train", "val", "test")


class ScannedScenes(GeneratedDataset):
    """Base class of generated scenes with a label at each point.

    Surfaces are sampled with the density of a scanner, which falls with the squared distance;
    nothing hides what is behind it. Nothing is read or downloaded.

    Args:
        num_scenes: Number of scenes.
        split: ``"train"``, ``"val"`` or ``"test"``, which share no scene.
        num_points: Number of points of a scene.
        seed: Random seed; scene :math:`i` depends on the seed, the split and :math:`i`.
        transform: Applied at each access.
        pre_transform: Applied once, when a scene is generated.
    """

    #: Height of the scanner above the origin, the distance up to which density is constant, and the
    #: standard deviation of the measured distance, in meters.
    scanner, near, noise = 1.8, 3.0, 0.02

    def __init__(
        self,
        num_scenes: int = 100,
        split: str = "train",
        num_points: int = 20_000,
        seed: int = 0,
        transform: Transform | None = None,
        pre_transform: Transform | None = None,
    ):
        super().__init__(num_scenes, seed, transform, pre_transform)
        owner = type(self).__name__
        if len(split_parts(owner, split)) > 1:
            raise ValueError(f"{owner}: Expected 'split' in train, val, test (got {split!r})")
        if num_points < 1:
            raise ValueError(f"{owner}: Expected 'num_points' of 1 or more (got {num_points})")
        self.split = split
        self.num_points = num_points

    @abstractmethod
    def surfaces(self, rng: np.random.Generator, count: int) -> tuple[Array, Array]:
        """Return points on the surfaces of a scene ``[n, 3]`` and their labels ``[n]``, where
        ``n`` is of the order of ``count`` and at least ``num_points``."""

    def generate(self, index: int) -> Data:
        rng = np.random.default_rng([self.seed, _PARTS.index(self.split), index])
        # Several times as many candidates as points: the scanner thins them by distance.
        pos, label = self.surfaces(rng, 6 * self.num_points)
        place = [0, 0, self.scanner]
        distance = np.linalg.norm(pos - place, axis=1)
        weight = 1 / np.maximum(distance, self.near) ** 2
        chosen = rng.choice(len(pos), self.num_points, replace=False, p=weight / weight.sum())
        ray = pos[chosen] - place
        ray /= np.linalg.norm(ray, axis=1, keepdims=True)
        found = pos[chosen] + ray * rng.normal(0, self.noise, (self.num_points, 1))
        points = torch.from_numpy(found.astype(np.float32))
        height = points[:, 2:] - points[:, 2].min()
        return Data(x=height, pos=points, y=torch.from_numpy(label[chosen]))


def box_points(
    rng: np.random.Generator, count: int, low: Sequence | Array, size: Sequence | Array
) -> Array:
    """Return points on the walls and the top of a box."""
    unit = rng.random((count, 3))
    face = rng.integers(0, 5, count)
    for axis in (0, 1):
        for end in (0, 1):
            unit[face == 2 * axis + end, axis] = end
    unit[face == 4, 2] = 1
    return np.asarray(low) + unit * np.asarray(size)
