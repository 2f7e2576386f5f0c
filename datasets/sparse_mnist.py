"""MNIST digits at few random positions."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset

from permutogeo.data import from_image
from permutogeo.datasets.shape_dataset import Transform, split_parts
from permutogeo.datasets.sources import find_file

_WHAT = "the digits of MNIST in the original files, four of them, packed by gzip"
_FILES = "mnist/{}-{}-ubyte.gz"
_SIDE = 28
# The last digits of the original training part are "val".
_VAL = 5000


class SparseMNIST(Dataset):
    r"""The digits of `MNIST <https://doi.org/10.1109/5.726791>`_ as points, subsampled as in the
    `"Learning Sparse High Dimensional Filters: Image Filtering, Dense CRFs and Bilateral Neural
    Networks" <https://arxiv.org/abs/1503.04949>`_ paper: random continuous positions in the image,
    with interpolated values.

    Read from the original files, ``mnist/train-images-idx3-ubyte.gz`` and its three companions. The
    last 5,000 of the 60,000 training digits are ``"val"``; 10,000 others are ``"test"``.

    Args:
        root: The folder that holds ``mnist``;
            by default ``$PERMUTOGEO_DATA``.
        split: ``"train"``, ``"val"``, ``"trainval"``, ``"test"`` or ``"all"``.
        fraction: Number of sampled points relative to the 784 pixels; by default the pixels are
            the points.
        seed: Random seed of the positions of each digit; by default they change at each access.
        transform: Applied at each access.

    Each digit has ``x`` :math:`(N, 1)` in [0, 1], ``pos`` :math:`(N, 2)` as (x, y) in pixels,
    ``y``, its class, ``height`` and ``width``.
    """

    num_classes = 10

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        split: str = "train",
        fraction: float | None = None,
        seed: int | None = None,
        transform: Transform | None = None,
    ):
        owner = type(self).__name__
        parts = split_parts(owner, split)
        if fraction is not None and not 0.0 < fraction <= 1.0:
            raise ValueError(f"{owner}: Expected 'fraction' in (0, 1] (got {fraction})")
        read = [_read_part(owner, root, part) for part in parts]
        folder = find_file(owner, root, _FILES.format("t10k", "labels-idx1"), _WHAT).parent
        super().__init__(str(folder), transform)
        self.fraction = fraction
        self.seed = seed
        self._digits = torch.cat([digits for digits, _ in read])
        self._classes = torch.cat([classes for _, classes in read])

    def len(self) -> int:
        return len(self._digits)

    def get(self, idx: int) -> Data:
        generator = None
        if self.seed is not None:
            mixed = np.random.SeedSequence([self.seed, idx]).generate_state(1)
            generator = torch.Generator().manual_seed(int(mixed[0]))
        data = from_image(self._digits[idx], fraction=self.fraction, generator=generator)
        data.y = self._classes[idx].view(1)
        return data

    def image(self, i: int) -> Tensor:
        """Return the digit as a tensor :math:`(1, 28, 28)` in [0, 1]."""
        return self._digits[self.indices()[i]].float().unsqueeze(0) / 255


def _read_part(owner: str, root: str | os.PathLike[str] | None, part: str) -> tuple[Tensor, Tensor]:
    """Return digits ``[N, 28, 28]`` uint8 and classes ``[N]`` int64 of one part."""
    name = "t10k" if part == "test" else "train"
    images, labels = (
        find_file(owner, root, _FILES.format(name, kind), _WHAT)
        for kind in ("images-idx3", "labels-idx1")
    )
    digits = _read_idx(images, (_SIDE, _SIDE))
    classes = _read_idx(labels, ()).long()
    if len(digits) != len(classes):
        raise ValueError(f"'{labels}': Expected {len(digits)} labels (got {len(classes)})")
    if len(classes) and int(classes.max()) > 9:
        raise ValueError(f"'{labels}': Expected labels of 0 to 9 (got {int(classes.max())})")
    if part == "test":
        return digits, classes
    first = max(0, len(digits) - _VAL)
    chosen = slice(first, None) if part == "val" else slice(0, first)
    return digits[chosen], classes[chosen]


def _read_idx(path: Path, shape: tuple[int, ...]) -> Tensor:
    """Return the bytes of an idx file, ``[N, *shape]``, checked against its header."""
    head = 4 * (2 + len(shape))
    try:
        with gzip.open(path) as file:
            sizes = np.frombuffer(file.read(head), ">i4").tolist()
            if len(sizes) != 2 + len(shape) or sizes[0] != 2049 + len(shape):
                raise ValueError(f"its head is {sizes}")
            if tuple(sizes[2:]) != shape or not 0 <= sizes[1] <= 10**6:
                raise ValueError(f"its sizes are {sizes[1:]}")
            content = file.read(int(np.prod(sizes[1:])) + 1)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise ValueError(f"'{path}': Expected a packed idx file of bytes ({error})") from error
    if len(content) != np.prod(sizes[1:]):
        raise ValueError(f"'{path}': Expected {np.prod(sizes[1:])} bytes (got {len(content)})")
    return torch.from_numpy(np.frombuffer(content, np.uint8).copy()).view(sizes[1], *shape)
