"""Procedural images of a tile on a background."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

from permutogeo.data import from_image
from permutogeo.datasets.generated_dataset import GeneratedDataset
from permutogeo.datasets.shape_dataset import Transform, split_parts

_PARTS = ("train", "val", "test")


class Tiles(GeneratedDataset):
    r"""The tiles from the `"Learning Sparse High Dimensional Filters: Image Filtering, Dense CRFs
    and Bilateral Neural Networks" <https://arxiv.org/abs/1503.04949>`_ paper: a tile of 20 x 20
    pixels of one random color, anywhere on a background of 64 x 64 pixels of another, with Gaussian
    noise.

    Colors are random, so a single pixel cannot be classified: the smaller area is the tile. Nothing
    is read or downloaded. An image is generated at first use and cached.

    Args:
        num_images: Number of images; the paper uses 10,000 for train, and 1,000 each for val and
            test.
        split: ``"train"``, ``"val"`` or ``"test"``, which share no image.
        size: Side length of an image in pixels.
        tile: Side length of the tile in pixels.
        noise: Standard deviation of the noise; colors are in [0, 1] before it and not clipped.
        seed: Random seed; image :math:`i` depends on the seed, the split and :math:`i`.
        transform: Applied at each access.
        pre_transform: Applied once, when a sample is generated.

    Each image has ``x`` :math:`(N, 3)`, ``pos`` :math:`(N, 2)` as (x, y) in pixels, ``y``
    :math:`(N)`, 1 on the tile, 0 elsewhere, ``height`` and ``width``.

    Example:
        >>> from permutogeo.datasets import Tiles
        >>> tiles = Tiles(10)
        >>> tiles[0]
        Data(x=[4096, 3], pos=[4096, 2], height=64, width=64, y=[4096])
        >>> int(tiles[0].y.sum())
        400
    """

    #: Background and tile.
    num_classes = 2

    def __init__(
        self,
        num_images: int = 10_000,
        split: str = "train",
        size: int = 64,
        tile: int = 20,
        noise: float = 0.02,
        seed: int = 0,
        transform: Transform | None = None,
        pre_transform: Transform | None = None,
    ):
        super().__init__(num_images, seed, transform, pre_transform)
        owner = type(self).__name__
        if len(split_parts(owner, split)) > 1:
            raise ValueError(f"{owner}: Expected 'split' in train, val, test (got {split!r})")
        if not 1 <= tile <= size:
            raise ValueError(f"{owner}: Expected 'tile' in 1 to {size}, the 'size' (got {tile})")
        if not noise >= 0:
            raise ValueError(f"{owner}: Expected 'noise' of 0 or more (got {noise})")
        self.split = split
        self.size = size
        self.tile = tile
        self.noise = noise

    def generate(self, index: int) -> Data:
        rng = np.random.default_rng([self.seed, _PARTS.index(self.split), index])
        label = np.zeros((self.size, self.size), np.int64)
        row, column = rng.integers(0, self.size - self.tile + 1, 2)
        label[row : row + self.tile, column : column + self.tile] = 1
        color = rng.random((2, 3))[label] + rng.normal(0.0, self.noise, (*label.shape, 3))
        data = from_image(color.astype(np.float32))
        data.y = torch.from_numpy(label.reshape(-1))
        return data
