"""Generated images of a tile before a background."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

from permutogeo.data import from_image
from permutogeo.datasets._generated import GeneratedShapes
from permutogeo.datasets._shapes import Transform, parts_of

_PARTS = ("train", "val", "test")


class Tiles(GeneratedShapes):
    r"""The tiles from the `"Learning Sparse High Dimensional Filters: Image Filtering, Dense CRFs
    and Bilateral Neural Networks" <https://arxiv.org/abs/1503.04949>`_ paper: a tile of 20 x 20
    pixels of one random color, anywhere before a background of 64 x 64 pixels of another, under
    Gaussian noise.

    A pixel by itself does not say what it is of, since colors are random: the smaller area is the
    tile. Nothing is read or downloaded. An image is made at its first use and kept.

    Args:
        num_images: How many images; the paper trains with 10,000 and has 1,000 for each other part.
        split: ``"train"``, ``"val"`` or ``"test"``, which have no image in common.
        size: Side of an image in pixels.
        tile: Side of the tile in pixels.
        noise: Standard deviation of the noise on colors in [0, 1], which are not clipped.
        seed: Of the images: image :math:`i` depends on the seed, on the split and on :math:`i`.
        transform: Applied to an image's points at each access.
        pre_transform: Applied to an image's points once, when it is made.

    Each image has ``x`` :math:`(N, 3)`, ``pos`` :math:`(N, 2)` as (x, y) in pixels, ``y``
    :math:`(N)`, 1 on the tile and else 0, ``height`` and ``width``.

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
        if len(parts_of(owner, split)) > 1:
            raise ValueError(f"{owner}: Expected 'split' in train, val, test (got {split!r})")
        if not 1 <= tile <= size:
            raise ValueError(f"{owner}: Expected 'tile' in 1 to {size}, the 'size' (got {tile})")
        if not noise >= 0:
            raise ValueError(f"{owner}: Expected 'noise' of 0 or more (got {noise})")
        self.split = split
        self.size = size
        self.tile = tile
        self.noise = noise

    def make(self, index: int) -> Data:
        rng = np.random.default_rng([self.seed, _PARTS.index(self.split), index])
        label = np.zeros((self.size, self.size), np.int64)
        row, column = rng.integers(0, self.size - self.tile + 1, 2)
        label[row : row + self.tile, column : column + self.tile] = 1
        color = rng.random((2, 3))[label] + rng.normal(0.0, self.noise, (*label.shape, 3))
        data = from_image(color.astype(np.float32))
        data.y = torch.from_numpy(label.reshape(-1))
        return data
