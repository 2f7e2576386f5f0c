"""Base class of datasets of images, decoded at each access."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset

from permutogeo.data import from_image
from permutogeo.data.pixels import FORMATS, load_pixels
from permutogeo.datasets.archives import Files
from permutogeo.datasets.shape_dataset import Transform


class ImageDataset(Dataset, ABC):
    """Base class of datasets whose images stay compressed and are decoded at each access.

    Args:
        root: Where the images are read from.
        entries: Source (with a ``path`` for errors) and name of each image.
        transform: Applied at each access.
    """

    def __init__(
        self, root: Path, entries: Sequence[tuple[Any, str]], transform: Transform | None = None
    ):
        if not entries:
            raise FileNotFoundError(
                f"{type(self).__name__}: Expected images in '{root}' (found none)"
            )
        super().__init__(str(root), transform)
        self._entries = list(entries)

    @property
    def names(self) -> list[str]:
        """Names of the images."""
        return [self._entries[i][1] for i in self.indices()]

    def image(self, i: int) -> Tensor:
        """Return the image as a tensor :math:`(C, H, W)` in [0, 1]."""
        return load_pixels(self._picture(*self._entry(i))).permute(2, 0, 1)

    def _entry(self, i: int) -> tuple[Any, str]:
        """Return source and name of the image of ``self[i]``."""
        return self._entries[self.indices()[i]]

    @abstractmethod
    def _picture(self, source: Any, name: str) -> Any:
        """Return the decoded image."""

    def _columns(self, source: Any, name: str) -> dict[str, Tensor]:
        """Return further values of the pixels, one row for each, row-major."""
        return {}

    def len(self) -> int:
        return len(self._entries)

    def get(self, idx: int) -> Data:
        source, name = self._entries[idx]
        data = from_image(self._picture(source, name))
        for key, column in self._columns(source, name).items():
            if len(column) != data.num_nodes:
                raise ValueError(
                    f"'{source.path}': Expected '{key}' of {name} for {data.width} x {data.height} "
                    f"pixels (got {len(column)} values)"
                )
            data[key] = column
        data.name = name
        return data


def decode_image(files: Files, name: str, read: Callable[[Any], Any]) -> Any:
    """Open an image file and return ``read(picture)``."""
    from PIL import Image

    content = files.read(name)
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as picture:
            return read(picture)
    except Exception as error:
        raise ValueError(f"'{files.path}': Expected an image '{name}' ({error})") from error


def rgb_image(picture: Any) -> Any:
    """Return the picture with three channels."""
    return picture.convert("RGB")


def label_image(picture: Any) -> Tensor:
    """Return the stored indices, not the colors of the palette: ``[H, W]`` int64."""
    array = np.asarray(picture)
    if array.ndim != 2:
        raise ValueError(f"Expected one channel (got mode {picture.mode})")
    return torch.from_numpy(array.astype(np.int64))
