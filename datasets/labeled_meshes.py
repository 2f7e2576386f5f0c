"""Point clouds with part labels."""

from __future__ import annotations

import os

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from permutogeo.datasets.shape_dataset import Filter, ShapeDataset, Transform, split_mask
from permutogeo.datasets.sources import find_file, read_arrays

FILE = "labeled_meshes/points.npz"
_WHAT = (
    "2048 points drawn from each of the 380 meshes of the data set LabeledDB_new, with normals and "
    "part labels (arrays points, normals, part, category, mesh_id, part_name)"
)
_ARRAYS = {
    "points": (None, None, 3),
    "normals": (None, None, 3),
    "part": (None, None),
    "category": (None,),
    "mesh_id": (None,),
    "part_name": (None,),
}


class LabeledMeshes(ShapeDataset):
    r"""The labeled meshes from the `"Learning 3D Mesh Segmentation and Labeling"
    <https://doi.org/10.1145/1778765.1778839>`_ paper, as points: 19 categories of 20 shapes, 94
    parts in all.

    Shapes are centered and scaled to the unit sphere. There is no official split; this one is by
    shape: of each ten shapes of a category, in the order of their ids, the 1st, 2nd, 4th, 5th, 7th
    and 9th are train, the 6th is val, the 3rd, 8th and 10th are test: 228, 38 and 114 in all.

    Args:
        root: The folder that holds ``labeled_meshes/points.npz``;
            by default ``$PERMUTOGEO_DATA``.
        split: ``"train"``, ``"val"``, ``"trainval"``, ``"test"`` or ``"all"``.
        categories: Names of the categories to read; by default all.
        transform: Applied at each access.
        pre_transform: Applied once, while reading.
        pre_filter: Which shapes to keep.

    Each shape has ``pos`` and ``normal`` :math:`(2048, 3)`, the part of each point ``y``
    :math:`(2048)`, numbered over all categories, and the numbers ``category`` and ``mesh_id``.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        split: str = "train",
        categories: list[str] | None = None,
        transform: Transform | None = None,
        pre_transform: Transform | None = None,
        pre_filter: Filter | None = None,
    ):
        path = find_file(type(self).__name__, root, FILE, _WHAT)
        arrays = read_arrays(path, _ARRAYS)
        #: Names of all parts, as ``"Human/head"``.
        self.part_names: list[str] = arrays["part_name"].tolist()
        #: Names of all categories, indexed by ``category``.
        self.categories: list[str] = np.unique(arrays["category"]).tolist()
        wanted = set(self.categories if categories is None else categories)
        if wanted - set(self.categories):
            raise ValueError(
                f"{type(self).__name__}: Expected 'categories' among {', '.join(self.categories)} "
                f"(got {', '.join(sorted(wanted - set(self.categories)))})"
            )
        order = np.lexsort([arrays["mesh_id"], arrays["category"]])
        chosen = split_mask(type(self).__name__, arrays["category"][order].tolist(), split)
        rows = [i for i, kept in zip(order, chosen, strict=True) if kept]
        rows = [i for i in rows if arrays["category"][i] in wanted]
        shapes = [self._shape(arrays, i) for i in rows]
        super().__init__(path.parent.parent, shapes, transform, pre_transform, pre_filter)

    def _shape(self, arrays: dict[str, np.ndarray], i: int) -> Data:
        return Data(
            pos=torch.from_numpy(arrays["points"][i] / np.float32(2047)),
            normal=torch.from_numpy(arrays["normals"][i] / np.float32(127)),
            y=torch.from_numpy(arrays["part"][i].astype(np.int64)),
            category=self.categories.index(arrays["category"][i]),
            mesh_id=int(arrays["mesh_id"][i]),
        )

    @property
    def num_classes(self) -> int:
        """Number of parts in all categories."""
        return len(self.part_names)

    @property
    def part_mask(self) -> Tensor:
        """Mask of the parts of each category, ``[categories, parts]`` bool."""
        owner = [name.split("/")[0] for name in self.part_names]
        return torch.tensor([[each == name for each in owner] for name in self.categories])
