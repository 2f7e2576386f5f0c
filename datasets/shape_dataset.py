"""Base class of datasets of shapes in memory, and splits by shape."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from torch_geometric.data import Data, Dataset

Transform = Callable[[Data], Data]
Filter = Callable[[Data], bool]

#: The parts that each split is made of.
SPLITS: Mapping[str, Sequence[str]] = {
    "train": ("train",),
    "val": ("val",),
    "trainval": ("train", "val"),
    "test": ("test",),
    "all": ("train", "val", "test"),
}
# The part of each of ten consecutive shapes of a class: six train, one val, three test.
_PARTS = ("train", "train", "test", "train", "train", "val", "train", "test", "train", "test")


class ShapeDataset(Dataset):
    """Base class of datasets that read all shapes into memory and write nothing to disk.

    Args:
        root: Where the shapes were read from.
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


def split_parts(
    owner: str, split: str, splits: Mapping[str, Sequence[str]] = SPLITS
) -> Sequence[str]:
    """Return the parts that a split is made of; raise unless the split is one of ``splits``."""
    if split not in splits:
        raise ValueError(f"{owner}: Expected 'split' in {', '.join(splits)} (got {split!r})")
    return splits[split]


def split_mask(owner: str, classes: Sequence, split: str) -> list[bool]:
    """Return whether each shape is in a split, by the pattern of ten within its class."""
    wanted = split_parts(owner, split)
    seen: dict = {}
    mask = []
    for each in classes:
        position = seen.get(each, 0)
        seen[each] = position + 1
        mask.append(_PARTS[position % len(_PARTS)] in wanted)
    return mask
