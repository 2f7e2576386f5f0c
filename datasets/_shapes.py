"""What the datasets share: shapes in memory, where their files are, and how they are split."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from torch_geometric.data import Data, Dataset

Transform = Callable[[Data], Data]
Filter = Callable[[Data], bool]

# The part of each of ten shapes of a class, in their order: six train, one validates, three test.
_PARTS = ("train", "train", "test", "train", "train", "val", "train", "test", "train", "test")
_SPLITS = {
    "train": ("train",),
    "val": ("val",),
    "trainval": ("train", "val"),
    "test": ("test",),
    "all": ("train", "val", "test"),
}


class ShapeDataset(Dataset):
    """Base of the datasets: shapes read at once into memory, and nothing written to disk.

    Args:
        root: Where the shapes came from.
        shapes: All shapes.
        transform: Applied at each access.
        pre_transform: Applied once, while reading.
        pre_filter: Which shapes to keep.
    """

    def __init__(
        self,
        root: Path,
        shapes: Iterable[Data],
        transform: Transform | None = None,
        pre_transform: Transform | None = None,
        pre_filter: Filter | None = None,
    ):
        super().__init__(str(root), transform, pre_transform, pre_filter)
        kept = (shape for shape in shapes if pre_filter is None or pre_filter(shape))
        self._shapes = [shape if pre_transform is None else pre_transform(shape) for shape in kept]

    def len(self) -> int:
        return len(self._shapes)

    def get(self, idx: int) -> Data:
        return copy.copy(self._shapes[idx])


def parts_of(owner: str, split: str) -> tuple[str, ...]:
    """The parts that a split joins."""
    if split not in _SPLITS:
        raise ValueError(f"{owner}: Expected 'split' in {', '.join(_SPLITS)} (got {split!r})")
    return _SPLITS[split]


def in_split(owner: str, classes: Sequence, split: str) -> list[bool]:
    """Whether each shape is in a split: within each class, in order, by the pattern of ten."""
    wanted = parts_of(owner, split)
    seen: dict = {}
    chosen = []
    for each in classes:
        position = seen.get(each, 0)
        seen[each] = position + 1
        chosen.append(_PARTS[position % len(_PARTS)] in wanted)
    return chosen


def find_file(owner: str, root: str | os.PathLike[str] | None, name: str, what: str) -> Path:
    """The file ``name`` below ``root``, or below the folder that PERMUTOGEO_DATA names."""
    folder = os.environ.get("PERMUTOGEO_DATA") if root is None else root
    if not folder:
        raise FileNotFoundError(
            f"{owner}: Expected 'root', or the environment variable PERMUTOGEO_DATA, to name the "
            f"folder that holds '{name}': {what} (got neither)"
        )
    path = Path(folder).expanduser() / name
    if not path.is_file():
        raise FileNotFoundError(
            f"{owner}: Expected the file '{path}' (there is none). It holds {what}; put it there, "
            f"or name the folder that has '{name}' by 'root' or PERMUTOGEO_DATA"
        )
    return path


def read_arrays(path: Path, shapes: Mapping[str, tuple[int | None, ...]]) -> dict[str, np.ndarray]:
    """The named arrays of an archive, of the expected shapes (``None`` for any size)."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in shapes}
    except Exception as error:
        raise ValueError(
            f"'{path}': Expected an archive with {', '.join(shapes)} ({error})"
        ) from error
    for name, shape in shapes.items():
        got = arrays[name].shape
        fits = len(got) == len(shape) and all(
            size in (None, n) for size, n in zip(shape, got, strict=True)
        )
        if not fits:
            expected = ["*" if size is None else size for size in shape]
            raise ValueError(f"'{path}': Expected '{name}' of shape {expected} (got {list(got)})")
    return arrays
