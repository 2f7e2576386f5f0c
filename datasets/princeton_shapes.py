"""Shapes with classes."""

from __future__ import annotations

import os

import numpy as np
import torch
from torch_geometric.data import Data

from ._shapes import (
    Filter,
    ShapeDataset,
    Transform,
    find_file,
    parts_of,
    read_arrays,
)

FILE = "psb/psb_points.npz"
_WHAT = (
    "1024 points drawn from each of the 1814 meshes of the Princeton Shape Benchmark, with classes "
    "(arrays points, is_test, model_id, base, coarse1, coarse2)"
)
MISCELLANEOUS = "-1"


class PrincetonShapes(ShapeDataset):
    r"""The shapes from the `"The Princeton Shape Benchmark"
    <https://doi.org/10.1109/SMI.2004.1314504>`_ paper, as points.

    A shape is centered and its largest radius is 1. The split is the published one, by shape: 907
    train and 907 test. Every fifth shape of the former, in the order of the file, validates
    (``"val"``), the others are ``"train"``, and ``"trainval"`` is all of them.

    Args:
        root: The folder that holds ``psb/psb_points.npz``; by default the one that the environment
            variable ``PERMUTOGEO_DATA`` names.
        split: ``"train"``, ``"val"``, ``"trainval"``, ``"test"`` or ``"all"``.
        level: The classification: ``"coarse2"``, ``"coarse1"`` or ``"base"``; of the last, train
            and test share few classes.
        miscellaneous: Whether shapes of no class are kept, as a class of their own, the first.
        transform: Applied to a shape at each access.
        pre_transform: Applied to a shape once, while reading.
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
        wanted = parts_of(owner, split)
        if level not in ("base", "coarse1", "coarse2"):
            raise ValueError(f"{owner}: Expected 'level' in base, coarse1, coarse2 (got {level!r})")
        path = find_file(owner, root, FILE, _WHAT)
        names = ("points", "is_test", "model_id", level)
        arrays = read_arrays(path, dict(zip(names, [(None, None, 3), *[(None,)] * 3], strict=True)))
        label, is_test = arrays[level], arrays["is_test"]
        part = np.where(is_test, "test", "train").astype("U5")
        part[np.flatnonzero(~is_test)[::5]] = "val"
        keep = np.isin(part, wanted) & (miscellaneous | (label != MISCELLANEOUS))
        #: Names of the classes; ``y`` counts in them.
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
        """How many classes there are."""
        return len(self.classes)
