"""Natural photographs (BSDS500)."""

from __future__ import annotations

import os
from typing import Any

from permutogeo.datasets.archives import Files, open_files
from permutogeo.datasets.image_dataset import ImageDataset, decode_image
from permutogeo.datasets.shape_dataset import Transform, split_parts
from permutogeo.datasets.sources import Origin, find_source

FOLDER = "bsds500"
TAR = "BSR_bsds500.tgz"
IMAGES = "BSDS500/data/images"
ORIGIN = Origin(
    page="https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/resources.html",
    url=f"https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/BSR/{TAR}",
    sha256="97e49d31764f3912f0c4122707d53062ac9e783ba0f095e447a4d53c1a41af8e",
)


class BSDS500(ImageDataset):
    r"""The photographs from the `"Contour Detection and Hierarchical Image Segmentation"
    <https://doi.org/10.1109/TPAMI.2010.161>`_ paper: 200 train, 100 val and 200 test, each
    481 x 321 or 321 x 481 pixels.

    Read from ``bsds500/train.zip``, ``val.zip`` and ``test.zip`` (images without a folder), from
    the unpacked original (``BSDS500/data/images``, ``BSR/BSDS500/data/images``), or from its tar;
    never extracted. Images are decoded at each access.

    Args:
        root: The folder that holds one of these, itself or in a folder ``bsds500``;
            by default ``$PERMUTOGEO_DATA``.
        split: ``"train"``, ``"val"``, ``"trainval"``, ``"test"`` or ``"all"``.
        gray: Whether to convert the images to one gray channel.
        download: Download the original (71 MB) if nothing is found.
        transform: Applied at each access.

    Each image has ``x`` :math:`(N, 3)`, or :math:`(N, 1)` if gray, in [0, 1], ``pos``
    :math:`(N, 2)` as (x, y) in pixels, ``height``, ``width`` and ``name``.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        split: str = "train",
        gray: bool = False,
        download: bool = False,
        transform: Transform | None = None,
    ):
        owner = type(self).__name__
        self.gray = gray
        entries: list[tuple[Files, str]] = []
        for part in split_parts(owner, split):
            places = (f"{part}.zip", f"{IMAGES}/{part}", f"BSR/{IMAGES}/{part}", TAR)
            path, place = find_source(owner, root, FOLDER, places, ORIGIN, download)
            files = open_files(path, f"BSR/{IMAGES}/{part}" if place == TAR else "")
            entries += [(files, name) for name in files.stems("", ".jpg")]
        super().__init__(path.parent, entries, transform)

    def _picture(self, source: Files, name: str) -> Any:
        mode = "L" if self.gray else "RGB"
        return decode_image(source, f"{name}.jpg", lambda picture: picture.convert(mode))
