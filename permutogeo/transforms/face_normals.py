"""Face normals, centroids and areas."""

from __future__ import annotations

from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.data.geometry import face_geometry
from permutogeo.data.require import require_mesh


class FaceNormals(BaseTransform):
    r"""Adds ``face_normal [F, 3]``, ``face_center [F, 3]`` and ``face_area [F]`` to a mesh.

    The normal of a degenerate face (area 0) is 0.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from permutogeo.transforms import FaceNormals
        >>> data = Data(pos=torch.eye(3), face=torch.tensor([[0], [1], [2]]))
        >>> FaceNormals()(data).face_normal
        tensor([[0.5774, 0.5774, 0.5774]])
    """

    def forward(self, data: Data) -> Data:
        pos, face = require_mesh(self, data)
        data.face_normal, data.face_center, data.face_area = face_geometry(pos, face)
        return data
