"""Indoor photographs with depth (NYU Depth V2)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from permutogeo.datasets.archives import Files, open_files
from permutogeo.datasets.image_dataset import ImageDataset, decode_image, rgb_image
from permutogeo.datasets.shape_dataset import Transform, split_parts
from permutogeo.datasets.sources import Origin, find_source

FOLDER = "nyu_depth_v2"
MAT = "nyu_depth_v2_labeled.mat"
SPLITS = "splits.mat"
_PAGE = "https://cs.nyu.edu/~fergus/datasets/nyu_depth_v2.html"
_HOST = "https://horatio.cs.nyu.edu/mit/silberman"
ORIGIN = Origin(
    page=_PAGE,
    url=f"{_HOST}/nyu_depth_v2/{MAT}",
    sha256="2d724b0c0ab358aa1ce5df855e5bd14a2279ab7202efe22f32a30d612dcb86aa",
)
SPLITS_ORIGIN = Origin(
    page=_PAGE,
    url=f"{_HOST}/indoor_seg_sup/{SPLITS}",
    sha256="6e081404491a8bfba2f066beaa9713ef6046f9007aa5f799f2a350506a580cee",
)
_SPLITS = {"train": ["train"], "test": ["test"], "all": ["train", "test"]}
_METERS_8_BIT = np.float32(10 / 255)  # per step of an 8-bit depth
_METERS_16_BIT = np.float32(0.001)


class NYUDepth(ImageDataset):
    r"""The labeled pairs from the `"Indoor Segmentation and Support Inference from RGBD Images"
    <https://doi.org/10.1007/978-3-642-33715-4_54>`_ paper (NYU Depth V2): indoor photographs,
    640 x 480, with depth; 795 train and 654 test.

    Read from ``nyu_depth_v2/train.zip`` and ``test.zip``, or folders of these names, with color in
    ``rgb`` (``.jpg`` or ``.png``) and depth in ``depth`` (``.png``; of 8 bits, with 255 for 10 m,
    or of 16 bits in millimeters), or from the original ``nyu_depth_v2_labeled.mat`` with
    ``splits.mat`` beside it, for which h5py must be installed. Images are decoded at each access.

    Args:
        root: The folder that holds one of these, itself or in a folder ``nyu_depth_v2``;
            by default ``$PERMUTOGEO_DATA``.
        split: ``"train"``, ``"test"`` or ``"all"``.
        crop: Whether to crop the border without color, keeping rows 44 to 470 and columns 40 to
            600.
        download: Download the original (3 GB) if nothing is found.
        transform: Applied at each access.

    Each image has ``x`` :math:`(N, 3)` in [0, 1], ``pos`` :math:`(N, 2)` as (x, y) in pixels, the
    depth in meters ``y`` :math:`(N)`, ``height``, ``width`` and ``name``.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        split: str = "train",
        crop: bool = False,
        download: bool = False,
        transform: Transform | None = None,
    ):
        owner = type(self).__name__
        self.crop = crop
        entries: list[tuple[_PairFiles | _OriginalFile, str]] = []
        for part in split_parts(owner, split, _SPLITS):
            places = (f"{part}.zip", part, MAT)
            path, place = find_source(owner, root, FOLDER, places, ORIGIN, download)
            if place == MAT:
                listed = find_source(owner, root, FOLDER, [SPLITS], SPLITS_ORIGIN, download)[0]
                source: _PairFiles | _OriginalFile = _OriginalFile(path, listed, part)
            else:
                source = _PairFiles(open_files(path))
            entries += [(source, name) for name in source.names]
        super().__init__(path.parent, entries, transform)

    def depth(self, i: int) -> Tensor:
        """Return the depth in meters, :math:`(1, H, W)`."""
        source, name = self._entry(i)
        return self._crop(source.depth(name)).unsqueeze(0)

    def _picture(self, source: _PairFiles | _OriginalFile, name: str) -> Any:
        return self._crop(source.color(name))

    def _columns(self, source: _PairFiles | _OriginalFile, name: str) -> dict[str, Tensor]:
        return {"y": self._crop(source.depth(name)).reshape(-1)}

    def _crop(self, rows: Any) -> Any:
        return rows[44:471, 40:601] if self.crop else rows


class _PairFiles:
    """Color and depth files of the same names."""

    def __init__(self, files: Files):
        self.path = files.path
        self._files = files
        depth = set(files.stems("depth", ".png"))
        self._suffix = {
            name: suffix
            for suffix in (".png", ".jpg")
            for name in files.stems("rgb", suffix)
            if name in depth
        }
        #: In numeric order.
        self.names = sorted(self._suffix, key=lambda name: (len(name), name))

    def color(self, name: str) -> np.ndarray:
        path = f"rgb/{name}{self._suffix[name]}"
        return np.array(decode_image(self._files, path, rgb_image))

    def depth(self, name: str) -> Tensor:
        return torch.from_numpy(decode_image(self._files, f"depth/{name}.png", _meters))


class _OriginalFile:
    """Pairs of a split in the original file, named by their index."""

    def __init__(self, path: Path, splits: Path, part: str):
        from scipy.io import loadmat

        self.path = path
        try:
            numbers = loadmat(splits)[f"{part}Ndxs"]
        except Exception as error:
            raise ValueError(f"'{splits}': Expected the array '{part}Ndxs' ({error})") from error
        self.names = [str(int(number) - 1) for number in np.sort(numbers, axis=None)]

    def color(self, name: str) -> np.ndarray:
        # MATLAB stores columns first: [index, channel, column, row].
        return np.ascontiguousarray(self._read("images", name).transpose(2, 1, 0))

    def depth(self, name: str) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(self._read("depths", name).T, np.float32))

    def _read(self, array: str, name: str) -> np.ndarray:
        try:
            import h5py
        except ImportError as error:
            raise ImportError(f"'{self.path}' needs h5py: 'pip install h5py'") from error
        try:
            with h5py.File(self.path, "r") as file:
                return file[array][int(name)]
        except Exception as error:
            raise ValueError(f"'{self.path}': Expected {array} with {name} ({error})") from error


def _meters(picture: Any) -> np.ndarray:
    """Return the depth in meters of a gray picture of 8 or 16 bits."""
    array = np.asarray(picture)
    if array.ndim != 2:
        raise ValueError(f"Expected one channel (got mode {picture.mode})")
    return array.astype(np.float32) * (_METERS_8_BIT if array.dtype == np.uint8 else _METERS_16_BIT)
