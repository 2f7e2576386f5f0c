"""Conversion of mesh faces to points."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.data.geometry import face_geometry
from permutogeo.data.require import is_point_attribute, require_mesh, require_single


class FacesToPoints(BaseTransform):
    r"""Converts each face of a mesh to a point, for example to filter face normals.

    The points have ``pos`` (centroids), ``normal`` and ``area``; ``x`` is the mean of the three
    corners, and ``face_<name>`` becomes ``<name>``. Other vertex attributes are dropped, attributes
    of the whole mesh stay.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from permutogeo.transforms import FacesToPoints
        >>> data = Data(pos=torch.eye(3), face=torch.tensor([[0], [1], [2]]))
        >>> FacesToPoints()(data)
        Data(pos=[1, 3], normal=[1, 3], area=[1])
    """

    def forward(self, data: Data) -> Data:
        require_single(self, data)
        pos, face = require_mesh(self, data)
        normal, center, area = face_geometry(pos, face)
        points: dict[str, Tensor] = {}
        if isinstance(data.get("x"), Tensor) and data["x"].is_floating_point():
            points["x"] = data["x"][face].mean(dim=0)
        for name, value in data.to_dict().items():
            of_faces = name.startswith("face_") and isinstance(value, Tensor)
            if of_faces and value.dim() and value.size(0) == face.size(1):
                points[name.removeprefix("face_")] = value
            of_mesh = name.startswith(("face", "edge_")) or name == "num_nodes"
            if of_mesh or is_point_attribute(name, value, len(pos)):
                del data[name]
        points.pop("center", None)  # equal to pos
        points.update(pos=center, normal=normal, area=area)
        for name, value in points.items():
            data[name] = value
        return data
