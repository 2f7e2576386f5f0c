"""Meshes with part labels of faces."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data

from permutogeo.data import from_mesh
from permutogeo.datasets.shape_dataset import Filter, ShapeDataset, Transform
from permutogeo.datasets.sources import find_file, read_arrays, read_mesh_names

FILE = "labeled_meshes/human_fourleg_meshes.npz"
_WHAT = "40 meshes with a part for each face (arrays v_<name>, f_<name>, y_<name>, part_name)"


class PartMeshes(ShapeDataset):
    r"""The 20 humans and 20 four-legged animals of the labeled meshes from the `"Learning 3D Mesh
    Segmentation and Labeling" <https://doi.org/10.1145/1778765.1778839>`_ paper, as whole meshes;
    :class:`LabeledMeshes` has all categories as points.

    Args:
        root: The folder that holds ``labeled_meshes/human_fourleg_meshes.npz``;
            by default ``$PERMUTOGEO_DATA``.
        transform: Applied at each access.
        pre_transform: Applied once, while reading.
        pre_filter: Which meshes to keep.

    Each mesh has ``pos`` :math:`(N, 3)`, ``face`` :math:`(3, F)`, the part of each face ``face_y``
    :math:`(F)`, an index into :attr:`part_names`, and its ``name``.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        transform: Transform | None = None,
        pre_transform: Transform | None = None,
        pre_filter: Filter | None = None,
    ):
        path = find_file(type(self).__name__, root, FILE, _WHAT)
        #: Names of the parts, as ``"Human/head"``.
        self.part_names: list[str] = read_arrays(path, {"part_name": (None,)})["part_name"].tolist()
        meshes = _read(path, read_mesh_names(path, "v_"), len(self.part_names))
        super().__init__(path.parent.parent, meshes, transform, pre_transform, pre_filter)


def _read(path: Path, names: list[str], parts: int) -> Iterator[Data]:
    shapes: dict[str, tuple] = {f"{kind}_{name}": (None, 3) for name in names for kind in "vf"}
    arrays = read_arrays(path, {**shapes, **{f"y_{name}": (None,) for name in names}})
    for name in names:
        label, faces = arrays[f"y_{name}"].astype(np.int64), arrays[f"f_{name}"]
        if len(label) != len(faces) or not ((label >= 0) & (label < parts)).all():
            raise ValueError(
                f"'{path}': Expected a part below {parts} for each of the {len(faces)} faces of "
                f"'{name}' (got {len(label)}, up to {label.max(initial=0)})"
            )
        try:
            mesh = from_mesh(arrays[f"v_{name}"], faces)
        except ValueError as error:
            raise ValueError(f"'{path}': Expected a mesh as '{name}' ({error})") from error
        mesh.face_y, mesh.name = torch.from_numpy(label), name
        yield mesh
