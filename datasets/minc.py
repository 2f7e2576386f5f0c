"""Photographs with material segments (MINC)."""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from permutogeo.datasets.archives import Files, check_member_name, open_files
from permutogeo.datasets.image_dataset import ImageDataset, decode_image, rgb_image
from permutogeo.datasets.shape_dataset import Transform
from permutogeo.datasets.sources import Origin, find_source

FOLDER = "minc"
ORIGIN = Origin(page="http://opensurfaces.cs.cornell.edu/publications/minc/")
_WHITE = 128


class MINC(ImageDataset):
    r"""The segments of the `"Material Recognition in the Wild with the Materials in Context
    Database" <https://arxiv.org/abs/1412.0623>`_: photographs with material labels for
    some regions.

    Read from the published folder layout: ``photo_orig/<last digit>/<photo>.jpg``,
    ``minc-s/categories.txt`` with one name per line, ``minc-s/<split>-segments.txt`` with lines
    ``category,photo,segment``, and ``minc-s/segments/<photo>_<segment>.png``, white inside the
    segment. Logits of a network, which are not part of the dataset, are read from
    ``minc-s/unary/<photo>.npy``, ``[rows, columns, L]`` of any size.

    Args:
        root: The folder that holds ``minc/photo_orig`` and ``minc/minc-s``, or these themselves;
            by default ``$PERMUTOGEO_DATA``.
        split: Prefix of the list of segments, such as ``"test"``.
        unary: Whether to read the logits ``unary``.
        ignore: Names of categories labeled :attr:`void`.
        transform: Applied at each access.

    Each image has ``x`` :math:`(N, 3)` in [0, 1], ``pos`` :math:`(N, 2)` as (x, y) in pixels, its
    materials ``y`` :math:`(N)` with :attr:`void` where unknown, ``height``, ``width`` and
    ``name``; with ``unary`` also ``unary`` :math:`(N, L)`, interpolated bilinearly.
    """

    #: Label of pixels ignored in training and testing.
    void = 255

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        split: str = "test",
        unary: bool = False,
        ignore: tuple[str, ...] = ("other",),
        transform: Transform | None = None,
    ):
        place, _ = find_source(type(self).__name__, root, FOLDER, ("minc-s",), ORIGIN)
        files = open_files(place.parent)
        #: Names of the materials, indexed by ``y``.
        self.classes = tuple(files.read("minc-s/categories.txt").decode().split())
        self._ignored = {self.classes.index(name) for name in ignore if name in self.classes}
        self._segments = _segments(files, f"minc-s/{split}-segments.txt", len(self.classes))
        self._with_unary = unary
        super().__init__(place.parent, [(files, name) for name in self._segments], transform)

    @property
    def num_classes(self) -> int:
        """Number of materials."""
        return len(self.classes)

    def _picture(self, source: Files, name: str) -> Any:
        return decode_image(source, f"photo_orig/{name[-1]}/{name}.jpg", rgb_image)

    def _columns(self, source: Files, name: str) -> dict[str, Tensor]:
        size = self._picture(source, name).size
        y = np.full(size[::-1], self.void, np.int64)
        for category, segment in self._segments[name]:
            file = f"minc-s/segments/{name}_{segment}.png"
            mask = decode_image(source, file, lambda picture: picture.convert("L").resize(size, 0))
            y[np.asarray(mask) >= _WHITE] = self.void if category in self._ignored else category
        columns = {"y": torch.from_numpy(y).reshape(-1)}
        if self._with_unary:
            columns["unary"] = self._logits(source, name, size)
        return columns

    def _logits(self, source: Files, name: str, size: tuple[int, int]) -> Tensor:
        file = f"minc-s/unary/{name}.npy"
        try:
            array = np.load(io.BytesIO(source.read(file)), allow_pickle=False)
        except ValueError as error:
            raise ValueError(f"'{source.path}': Expected an array '{file}' ({error})") from error
        if array.ndim != 3 or array.shape[2] != self.num_classes:
            raise ValueError(
                f"'{source.path}': Expected '{file}' of shape [rows, columns, {self.num_classes}] "
                f"(got {list(array.shape)})"
            )
        first = torch.from_numpy(array.astype(np.float32)).permute(2, 0, 1).unsqueeze(0)
        full = functional.interpolate(first, size[::-1], mode="bilinear", align_corners=False)
        return full[0].flatten(1).t().contiguous()


def _segments(files: Files, name: str, categories: int) -> dict[str, list[tuple[int, str]]]:
    """Return category and id of the segments of each photograph, in the order of the list."""
    found: dict[str, list[tuple[int, str]]] = {}
    for number, line in enumerate(files.read(name).decode().splitlines(), 1):
        if not line.strip():
            continue
        parts = [part.strip() for part in line.split(",")]
        if len(parts) != 3 or not parts[0].isdecimal() or int(parts[0]) >= categories:
            raise ValueError(
                f"'{files.path}': Expected lines 'category,photo,segment' with categories below "
                f"{categories} in '{name}' (got {line!r} in line {number})"
            )
        for part in parts[1:]:
            check_member_name(files.path, part)
        found.setdefault(parts[1], []).append((int(parts[0]), parts[2]))
    return found
