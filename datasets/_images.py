"""What the datasets of images share: where they are, and how an image becomes points."""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset

from permutogeo.data import from_image
from permutogeo.data._pixels import FORMATS, load_pixels
from permutogeo.datasets._archives import Files
from permutogeo.datasets._download import download
from permutogeo.datasets._shapes import Transform


@dataclass(frozen=True)
class Origin:
    """Where a dataset is published.

    Attributes:
        page: What a person opens to get it.
        url: The file to download, if its content is known.
        sha256: Of that file.
    """

    page: str
    url: str = ""
    sha256: str = ""


class ImageDataset(Dataset, ABC):
    """Base of the datasets: images stay compressed where they are, and are decoded when asked for.

    Args:
        root: Where the images came from.
        entries: Where each image is read from (with a ``path`` to name in errors), and its name.
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
        """The name of each image."""
        return [self._entries[i][1] for i in self.indices()]

    def image(self, i: int) -> Tensor:
        """The image as a tensor :math:`(C, H, W)` in [0, 1]."""
        return load_pixels(self._picture(*self._entry(i))).permute(2, 0, 1)

    def _entry(self, i: int) -> tuple[Any, str]:
        """Source and name of the image that ``self[i]`` shows."""
        return self._entries[self.indices()[i]]

    @abstractmethod
    def _picture(self, source: Any, name: str) -> Any:
        """The decoded image."""

    def _columns(self, source: Any, name: str) -> dict[str, Tensor]:
        """What each pixel has beside its color, row by row."""
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


def check_split(owner: str, split: str, splits: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """The parts that a split joins."""
    if split not in splits:
        raise ValueError(f"{owner}: Expected 'split' in {', '.join(splits)} (got {split!r})")
    return splits[split]


def decode(files: Files, name: str, read: Callable[[Any], Any]) -> Any:
    """What ``read`` makes of an image file, while it is open."""
    from PIL import Image

    content = files.read(name)
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as picture:
            return read(picture)
    except Exception as error:
        raise ValueError(f"'{files.path}': Expected an image '{name}' ({error})") from error


def color(picture: Any) -> Any:
    """The picture with three channels."""
    return picture.convert("RGB")


def integers(picture: Any) -> Tensor:
    """The numbers in the file, not the colors that a palette gives them: ``[H, W]`` int64."""
    array = np.asarray(picture)
    if array.ndim != 2:
        raise ValueError(f"Expected one channel (got mode {picture.mode})")
    return torch.from_numpy(array.astype(np.int64))


def find_place(
    owner: str,
    root: str | os.PathLike[str] | None,
    folder: str,
    places: Sequence[str],
    origin: Origin,
    fetch: bool = False,
) -> tuple[Path, str]:
    """The first of ``places`` that exists, below ``root`` or below ``folder`` in it.

    Args:
        owner: The dataset that asks.
        root: The folder of the data; by default the one that PERMUTOGEO_DATA names.
        folder: The dataset's own folder there.
        places: Names of files and folders, the last of them that of the download.
        origin: Where to get it.
        fetch: Download what is not there.

    Returns:
        The path, and which of ``places`` it is.
    """
    given = os.environ.get("PERMUTOGEO_DATA") if root is None else root
    top = Path(given).expanduser() if given else None
    if top is not None:
        for place in places:
            for path in (top / folder / place, top / place):
                if path.exists():
                    return path, place
        if fetch and origin.sha256:
            path = download(owner, origin.url, origin.sha256, top / folder / places[-1])
            return path, places[-1]
    wanted = ", ".join(f"'{folder}/{place}'" for place in places)
    hint = f"Get it from {origin.page}" + (" or give download=True" if origin.sha256 else "")
    raise FileNotFoundError(
        f"{owner}: Expected 'root', or the environment variable PERMUTOGEO_DATA, to name a folder "
        f"with one of {wanted} (got {f'{str(top)!r} without any' if top else 'neither'}). {hint}"
    )
