"""Faces as points."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.transforms._mesh import face_geometry
from permutogeo.transforms._require import is_point_attribute, require_mesh, require_single


class FacesToPoints(BaseTransform):
    r"""Makes each face of a mesh a point, so that filtering face normals is a task on points.

    The points have ``pos`` (the centroids), ``normal`` and ``area``; ``x`` is the mean of the three
    corners where vertices have values, an attribute ``face_<name>`` becomes ``<name>``. Other
    attributes of the vertices are dropped, those of the whole mesh stay.

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
        points.pop("center", None)  # it is the position
        points.update(pos=center, normal=normal, area=area)
        for name, value in points.items():
            data[name] = value
        return data
