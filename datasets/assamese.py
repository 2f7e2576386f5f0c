"""Online handwritten Assamese characters."""

from __future__ import annotations

import os

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from permutogeo.datasets.shape_dataset import Filter, ShapeDataset, Transform, split_parts
from permutogeo.datasets.sources import find_file, read_arrays

FILE = "assamese/assamese.npz"
_WHAT = (
    "the pen strokes of 183 Assamese characters by 45 writers, of the UCI repository's 'Online "
    "Handwritten Assamese Characters' (arrays xy, stroke, offset, writer, char_id, char_name)"
)
_SHAPES: dict[str, tuple[int | None, ...]] = {
    "xy": (None, 2),
    **dict.fromkeys(("stroke", "offset", "writer", "char_id", "char_name"), (None,)),
}
_COUNTS = {"train": 30, "val": 6, "test": 9}


class Assamese(ShapeDataset):
    r"""The "Online Handwritten Assamese Characters" of the UCI repository (Baruah and Hazarika),
    drawn as in the `"Learning Sparse High Dimensional Filters: Image Filtering, Dense
    CRFs and Bilateral Neural Networks" <https://arxiv.org/abs/1503.04949>`_ paper: 183 characters,
    each once by 45 writers. The pixels with ink are the points.

    Writers are split at random: 30 train, 6 val, 9 test.

    Args:
        root: The folder that holds ``assamese/assamese.npz``;
            by default ``$PERMUTOGEO_DATA``.
        split: ``"train"``, ``"val"``, ``"trainval"``, ``"test"`` or ``"all"``.
        size: Side length of the drawing in pixels.
        crop: Whether to scale the longer side of a character's bounding box to the drawing;
            otherwise the drawing shows the whole tablet.
        stretch: Whether cropping scales both sides of the bounding box to the drawing, which
            changes the proportions of a character.
        line_width: Width of the lines in pixels.
        split_seed: Random seed of the split of the writers.
        transform: Applied at each access.
        pre_transform: Applied once, while reading.
        pre_filter: Which characters to keep.

    Each character has ``pos`` :math:`(N, 2)`, the pixels (x, y) with ink, ``x`` :math:`(N, 1)` of
    ones, ``y``, its class, ``writer``, ``height`` and ``width``.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        split: str = "train",
        size: int = 96,
        crop: bool = False,
        stretch: bool = False,
        line_width: int = 1,
        split_seed: int = 0,
        transform: Transform | None = None,
        pre_transform: Transform | None = None,
        pre_filter: Filter | None = None,
    ):
        owner = type(self).__name__
        parts = split_parts(owner, split)
        if size < 2:
            raise ValueError(f"{owner}: Expected 'size' of 2 or more (got {size})")
        if line_width < 1:
            raise ValueError(f"{owner}: Expected 'line_width' of 1 or more (got {line_width})")
        path = find_file(owner, root, FILE, _WHAT)
        arrays = read_arrays(path, _SHAPES)
        #: Names of the classes.
        self.classes: list[str] = arrays["char_name"].tolist()
        #: Numbers of the writers.
        self.writers: list[int] = _writers(arrays["writer"], parts, split_seed)
        self.size = size
        chosen = np.isin(arrays["writer"], self.writers)
        box = None if not crop else "stretched" if stretch else "cropped"
        drawn = _draw_characters(arrays, chosen, size, box)
        characters = []
        for i, pixels in zip(np.flatnonzero(chosen), drawn, strict=True):
            pixels = _widen(pixels, line_width, size)
            pos = torch.from_numpy(pixels).float()
            character = Data(x=torch.ones(len(pos), 1), pos=pos, height=size, width=size)
            character.y = torch.tensor([int(arrays["char_id"][i]) - 1])
            character.writer = int(arrays["writer"][i])
            characters.append(character)
        super().__init__(path.parent.parent, characters, transform, pre_transform, pre_filter)

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    def image(self, i: int) -> Tensor:
        """Return the drawing as a tensor :math:`(1, H, W)`: 1 for ink, 0 elsewhere."""
        column, row = self._shapes[self.indices()[i]].pos.long().T
        drawing = torch.zeros(1, self.size, self.size)
        drawing[0, row, column] = 1.0
        return drawing


def _writers(writer: np.ndarray, parts: tuple[str, ...], seed: int) -> list[int]:
    """Return the writers of some parts of a random permutation."""
    order = np.random.default_rng(seed).permutation(np.unique(writer))
    ends = np.cumsum(list(_COUNTS.values()))[:-1]
    writers = dict(zip(_COUNTS, np.split(order, ends), strict=True))
    return sorted(np.concatenate([writers[part] for part in parts]).tolist())


def _draw_characters(
    arrays: dict[str, np.ndarray], chosen: np.ndarray, size: int, box: str | None
) -> list[np.ndarray]:
    """Return the pixels with ink of the chosen characters, on the tablet or in their boxes."""
    xy, every = arrays["xy"].astype(np.float64), np.diff(arrays["offset"])
    low, side = xy.min(0), np.ptp(xy, axis=0).max()
    kept, count = chosen.repeat(every), every[chosen]
    xy = xy[kept]
    if box is not None:
        first = np.cumsum(count) - count
        low, high = np.minimum.reduceat(xy, first), np.maximum.reduceat(xy, first)
        sides = (high - low) if box == "stretched" else (high - low).max(1, keepdims=True)
        side = np.maximum(sides, 1.0)
        low = ((low + high - side) / 2).repeat(count, 0)
        side = side.repeat(count, 0)
    place = (xy - low) / side * (size - 1)
    return draw_lines(place, np.arange(len(count)).repeat(count), arrays["stroke"][kept], size)


def _widen(pixels: np.ndarray, width: int, size: int) -> np.ndarray:
    """Return the pixels covered by a square pen of ``width`` pixels, row-major."""
    steps = np.arange(width) - (width - 1) // 2
    column, row = (np.add.outer(axis, steps).clip(0, size - 1) for axis in pixels.T)
    code = np.unique(row[:, :, None] * size + column[:, None, :])
    return np.stack([code % size, code // size], 1)


def draw_lines(
    place: np.ndarray, drawing: np.ndarray, stroke: np.ndarray, size: int
) -> list[np.ndarray]:
    """Return the unique pixels (x, y) that polylines touch, row-major, for each drawing.

    Args:
        place: Positions ``[N, 2]`` in pixels.
        drawing: Drawing of each position, ascending from 0.
        stroke: Stroke of each position; strokes are not connected.
        size: Side length of a drawing.
    """
    start, step = place[:-1], np.diff(place, axis=0)
    step[(stroke[:-1] != stroke[1:]) | (drawing[:-1] != drawing[1:])] = 0.0
    # Two samples per pixel leave no gap.
    count = np.ceil(2 * np.abs(step).max(1, initial=0.0)).astype(np.int64) + 1
    line = np.repeat(np.arange(len(step)), count)
    along = np.arange(len(line)) - np.repeat(np.cumsum(count) - count, count)
    points = start[line] + step[line] * (along / count[line])[:, None]
    column, row = np.rint(np.concatenate([points, place])).astype(np.int64).T
    owner = np.concatenate([drawing[:-1][line], drawing])
    code = np.unique((owner * size + row) * size + column)
    pixels = np.stack([code % size, code // size % size], 1)
    return np.split(pixels, np.searchsorted(code, np.arange(1, drawing[-1] + 1) * size**2))
