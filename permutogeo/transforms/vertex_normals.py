"""Vertex normals."""

from __future__ import annotations

from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.data.geometry import vertex_normals
from permutogeo.data.require import require_mesh


class VertexNormals(BaseTransform):
    r"""Adds ``normal [N, 3]`` to a mesh: the mean normal of the faces at each vertex.

    The normal is 0 for a vertex without faces, or whose faces cancel.

    Args:
        weight: Weight of a face: its ``"area"``, its ``"angle"`` at the vertex, or ``"uniform"``.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from permutogeo.transforms import VertexNormals
        >>> data = Data(pos=torch.eye(3), face=torch.tensor([[0], [1], [2]]))
        >>> VertexNormals()(data).normal.shape
        torch.Size([3, 3])
    """

    def __init__(self, weight: str = "area") -> None:
        if weight not in ("area", "angle", "uniform"):
            expected = "'weight' in area, angle, uniform"
            raise ValueError(f"VertexNormals: Expected {expected} (got '{weight}')")
        self.weight = weight

    def forward(self, data: Data) -> Data:
        data.normal = vertex_normals(*require_mesh(self, data), weight=self.weight)
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(weight='{self.weight}')"
