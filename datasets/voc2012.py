"""Photographs with a class for each pixel (Pascal VOC 2012)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from permutogeo.datasets.archives import Files, check_member_name, open_files
from permutogeo.datasets.image_dataset import ImageDataset, decode_image, label_image, rgb_image
from permutogeo.datasets.shape_dataset import Transform, split_parts
from permutogeo.datasets.sources import Origin, find_source, read_arrays

FOLDER = "voc2012"
TAR = "VOCtrainval_11-May-2012.tar"
INSIDE = "VOCdevkit/VOC2012"
UNARY = "{split}_unary_deeplabv3_mnv2.npz"
ORIGIN = Origin(
    page="http://host.robots.ox.ac.uk/pascal/VOC/voc2012/",
    url=f"http://host.robots.ox.ac.uk/pascal/VOC/voc2012/{TAR}",
    sha256="e14f763270cf193d0b5f74b169f44157a4b0c6efa708f4dd0ff78ee691763bcb",
)
_SPLITS = {"train": ["train"], "val": ["val"], "trainval": ["train", "val"]}
_STRIDE = 8  # output stride of the network that computed the unaries


class VOC2012(ImageDataset):
    r"""The segmentation part of the `"The PASCAL Visual Object Classes Challenge"
    <https://doi.org/10.1007/s11263-014-0733-5>`_ of 2012: photographs with a class for each pixel,
    of 20 kinds of objects and the background.

    Read from ``voc2012/train.zip`` and ``voc2012/val.zip`` (folders ``JPEGImages`` and
    ``SegmentationClass``; all images in them belong to the split), from the unpacked original
    ``VOCdevkit/VOC2012``, or from its tar; never extracted. Images are decoded at each access.

    Args:
        root: The folder that holds one of these, itself or in a folder ``voc2012``;
            by default ``$PERMUTOGEO_DATA``.
        split: ``"train"``, ``"val"`` or ``"trainval"``.
        unary: Whether to read the logits ``unary`` from
            ``{split}_unary_deeplabv3_mnv2.npz``; images without logits are left out.
        download: Download the original (2 GB) if nothing is found.
        transform: Applied at each access.

    Each image has ``x`` :math:`(N, 3)` in [0, 1], ``pos`` :math:`(N, 2)` as (x, y) in pixels, its
    classes ``y`` :math:`(N)` with :attr:`void` where unknown, ``height``, ``width`` and
    ``name``; with ``unary`` also the logits of a network ``unary`` :math:`(N, 21)`.
    """

    #: Names of the classes, indexed by ``y``.
    classes = (
        *("background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat"),
        *("chair", "cow", "diningtable", "dog", "horse", "motorbike", "person", "pottedplant"),
        *("sheep", "sofa", "train", "tvmonitor"),
    )
    #: Label of pixels ignored in training and testing.
    void = 255

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        split: str = "train",
        unary: bool = False,
        download: bool = False,
        transform: Transform | None = None,
    ):
        owner = type(self).__name__
        entries: list[tuple[Files, str]] = []
        self._unary: dict[str, tuple[Path, int, int]] = {}
        for part in split_parts(owner, split, _SPLITS):
            places = (f"{part}.zip", INSIDE, "VOC2012", "JPEGImages", TAR)
            path, place = find_source(owner, root, FOLDER, places, ORIGIN, download)
            path = path.parent if place == "JPEGImages" else path
            files = open_files(path, INSIDE if place == TAR else "")
            names = _names(files, part, listed=place != f"{part}.zip")
            if unary:
                known = _unary_index(owner, root, part)
                names = [name for name in names if name in known]
                self._unary.update(known)
            entries += [(files, name) for name in names]
        self._with_unary = unary
        super().__init__(path.parent, entries, transform)

    def label(self, i: int) -> Tensor:
        """Return the class of each pixel, :math:`(H, W)` int64."""
        return self._label(*self._entry(i))

    def unary(self, i: int) -> Tensor:
        """Return the logits of each pixel, :math:`(21, H, W)`; requires ``unary=True``.

        They are bilinearly interpolated from the output of a network of stride 8, whose input had a
        longer side of 257 pixels.
        """
        source, name = self._entry(i)
        return self._logits(name, self._picture(source, name).size)

    @property
    def num_classes(self) -> int:
        """Number of classes, with the background."""
        return len(self.classes)

    def _picture(self, source: Files, name: str) -> Any:
        return decode_image(source, f"JPEGImages/{name}.jpg", rgb_image)

    def _label(self, source: Files, name: str) -> Tensor:
        label = decode_image(source, f"SegmentationClass/{name}.png", label_image)
        wrong = (label >= len(self.classes)) & (label != self.void)
        if wrong.any():
            raise ValueError(
                f"'{source.path}': Expected classes of {name} below {len(self.classes)} or "
                f"{self.void} (got {int(label[wrong][0])})"
            )
        return label

    def _columns(self, source: Files, name: str) -> dict[str, Tensor]:
        label = self._label(source, name)
        columns = {"y": label.reshape(-1)}
        if self._with_unary:
            size = (label.shape[1], label.shape[0])
            columns["unary"] = self._logits(name, size).flatten(1).T.contiguous()
        return columns

    def _logits(self, name: str, size: tuple[int, int]) -> Tensor:
        if name not in self._unary:
            raise ValueError(f"{type(self).__name__}: Expected 'unary=True' when it was made")
        path, height, width = self._unary[name]
        stored = read_arrays(path, {name: (None, None, len(self.classes))})[name]
        return interpolate_logits(
            torch.from_numpy(stored.astype(np.float32)), (height, width), size
        )


def interpolate_logits(logits: Tensor, resized: tuple[int, int], size: tuple[int, int]) -> Tensor:
    """Interpolate the logits ``[rows, columns, L]`` of a resized image bilinearly at all pixels.

    Row r, column c belongs to pixel (8 r, 8 c) of the image when it is ``resized`` to (height,
    width). Pixels beyond the outermost logits take the nearest logits.

    Returns:
        The logits at the image's own ``size`` (width, height): ``[L, height, width]``.
    """
    rows, columns, _ = logits.shape
    width, height = size
    y = (torch.arange(height) + 0.5) * (resized[0] / height) - 0.5
    x = (torch.arange(width) + 0.5) * (resized[1] / width) - 0.5
    # Normalized coordinates: the outermost logits are at -1 and 1.
    y = 2 * y / (_STRIDE * max(rows - 1, 1)) - 1
    x = 2 * x / (_STRIDE * max(columns - 1, 1)) - 1
    grid = torch.stack(torch.meshgrid(x, y, indexing="xy"), -1)
    source = logits.permute(2, 0, 1).unsqueeze(0)
    return functional.grid_sample(
        source, grid.unsqueeze(0), padding_mode="border", align_corners=True
    )[0]


def _names(files: Files, part: str, listed: bool) -> list[str]:
    """Return the images of a split: those of a list, or all that have labels."""
    if not listed:
        labeled = set(files.stems("SegmentationClass", ".png"))
        return [name for name in files.stems("JPEGImages", ".jpg") if name in labeled]
    names = files.read(f"ImageSets/Segmentation/{part}.txt").decode("ascii", "replace").split()
    for name in names:
        check_member_name(files.path, name)
    return names


def _unary_index(
    owner: str, root: str | os.PathLike[str] | None, part: str
) -> dict[str, tuple[Path, int, int]]:
    """Return the file of each image's logits, and the height and width of the network's input."""
    place = UNARY.format(split=part)
    origin = Origin(page="a network: arrays ids, resized_hw, and one named after each image")
    path, _ = find_source(f"{owner} with unary", root, FOLDER, [place], origin)
    arrays = read_arrays(path, {"ids": (None,), "resized_hw": (None, 2)})
    sizes = arrays["resized_hw"].tolist()
    ids = arrays["ids"].tolist()
    return {str(name): (path, h, w) for name, (h, w) in zip(ids, sizes, strict=True)}
