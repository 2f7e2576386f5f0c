"""Point clouds of ten classes (ModelNet10)."""

from __future__ import annotations

import os

import numpy as np
import torch
from torch_geometric.data import Data

from permutogeo.datasets.shape_dataset import Filter, ShapeDataset, Transform, split_parts
from permutogeo.datasets.sources import find_file, read_arrays

FILE = "modelnet10/modelnet10_points.npz"
_WHAT = (
    "1024 points drawn from each of the 4899 meshes of ModelNet10, with classes "
    "(arrays points, label, train, class_name)"
)


class ModelNet10(ShapeDataset):
    r"""The ten classes of the `"3D ShapeNets: A Deep Representation for Volumetric Shapes"
    <https://arxiv.org/abs/1406.5670>`_ paper, as points.

    Shapes are centered and scaled to the unit sphere. The split is the published one: 3991 train
    and 908 test. Of the former, every tenth shape in file order is ``"val"``, the others are
    ``"train"``, and ``"trainval"`` is both.

    Args:
        root: The folder that holds ``modelnet10/modelnet10_points.npz``;
            by default ``$PERMUTOGEO_DATA``.
        split: ``"train"``, ``"val"``, ``"trainval"``, ``"test"`` or ``"all"``.
        transform: Applied at each access.
        pre_transform: Applied once, while reading.
        pre_filter: Which shapes to keep.

    Each shape has ``pos`` :math:`(1024, 3)` and ``y``, its class.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        split: str = "train",
        transform: Transform | None = None,
        pre_transform: Transform | None = None,
        pre_filter: Filter | None = None,
    ):
        owner = type(self).__name__
        wanted = split_parts(owner, split)
        path = find_file(owner, root, FILE, _WHAT)
        shapes: dict = {"points": (None, None, 3), "label": (None,), "train": (None,)}
        arrays = read_arrays(path, {**shapes, "class_name": (None,)})
        train = arrays["train"].astype(bool)
        part = np.where(train, "train", "test").astype("U5")
        part[np.flatnonzero(train)[::10]] = "val"
        #: Names of the classes, indexed by ``y``.
        self.classes: list[str] = arrays["class_name"].tolist()
        items = [
            Data(
                pos=torch.from_numpy(arrays["points"][i] / np.float32(2047)),
                y=torch.tensor([int(arrays["label"][i])]),
            )
            for i in np.flatnonzero(np.isin(part, wanted))
        ]
        super().__init__(path.parent.parent, items, transform, pre_transform, pre_filter)

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)
