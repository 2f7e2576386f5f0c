"""Point clouds with classes (Princeton Shape Benchmark)."""

from __future__ import annotations

import os

import numpy as np
import torch
from torch_geometric.data import Data

from permutogeo.datasets.shape_dataset import Filter, ShapeDataset, Transform, split_parts
from permutogeo.datasets.sources import find_file, read_arrays

FILE = "psb/psb_points.npz"
_WHAT = (
    "1024 points drawn from each of the 1814 meshes of the Princeton Shape Benchmark, with classes "
    "(arrays points, is_test, model_id, base, coarse1, coarse2)"
)
MISCELLANEOUS = "-1"


class PrincetonShapes(ShapeDataset):
    r"""The shapes from the `"The Princeton Shape Benchmark"
    <https://doi.org/10.1109/SMI.2004.1314504>`_ paper, as points.

    Shapes are centered and scaled to the unit sphere. The split is the published one, by shape:
    907 train and 907 test. Of the former, every fifth shape in file order is ``"val"``, the others
    are ``"train"``, and ``"trainval"`` is both.

    Args:
        root: The folder that holds ``psb/psb_points.npz``;
            by default ``$PERMUTOGEO_DATA``.
        split: ``"train"``, ``"val"``, ``"trainval"``, ``"test"`` or ``"all"``.
        level: The classification: ``"coarse2"``, ``"coarse1"`` or ``"base"``; the last
            has few classes common to train and test.
        miscellaneous: Whether to keep unclassified shapes, as the first class.
        transform: Applied at each access.
        pre_transform: Applied once, while reading.
        pre_filter: Which shapes to keep.

    Each shape has ``pos`` :math:`(1024, 3)` and the numbers ``y``, its class, and ``model_id``.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        split: str = "train",
        level: str = "coarse2",
        miscellaneous: bool = True,
        transform: Transform | None = None,
        pre_transform: Transform | None = None,
        pre_filter: Filter | None = None,
    ):
        owner = type(self).__name__
        wanted = split_parts(owner, split)
        if level not in ("base", "coarse1", "coarse2"):
            raise ValueError(f"{owner}: Expected 'level' in base, coarse1, coarse2 (got {level!r})")
        path = find_file(owner, root, FILE, _WHAT)
        names = ("points", "is_test", "model_id", level)
        arrays = read_arrays(path, dict(zip(names, [(None, None, 3), *[(None,)] * 3], strict=True)))
        label, is_test = arrays[level], arrays["is_test"]
        part = np.where(is_test, "test", "train").astype("U5")
        part[np.flatnonzero(~is_test)[::5]] = "val"
        keep = np.isin(part, wanted) & (miscellaneous | (label != MISCELLANEOUS))
        #: Names of the classes, indexed by ``y``.
        self.classes: list[str] = [
            name for name in np.unique(label).tolist() if miscellaneous or name != MISCELLANEOUS
        ]
        shapes = [
            Data(
                pos=torch.from_numpy(arrays["points"][i] / np.float32(2047)),
                y=torch.tensor([self.classes.index(label[i])]),
                model_id=int(arrays["model_id"][i]),
            )
            for i in np.flatnonzero(keep)
        ]
        super().__init__(path.parent.parent, shapes, transform, pre_transform, pre_filter)

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)
