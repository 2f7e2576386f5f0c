"""Normalization of position and scale."""

from __future__ import annotations

import torch
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.data.geometry import mean_edge_length
from permutogeo.data.require import require, require_mesh, require_pos


class NormalizeScale(BaseTransform):
    r"""Centers positions and scales them to unit size, invertibly.

    Unlike PyG's transform of this name it stores ``center [1, dim]`` and ``scale [1]``, so that
    :meth:`inverse` restores the original units, and coincident points give 0 instead of NaN.

    Args:
        by: Size that becomes 1: the largest distance from the center (``"radius"``) or the mean
            edge length of a mesh (``"edge"``), which makes bandwidths independent of units and
            mesh size.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from permutogeo.transforms import NormalizeScale
        >>> transform = NormalizeScale()
        >>> data = transform(Data(pos=torch.tensor([[0.0, 0.0], [4.0, 0.0]])))
        >>> data.pos
        tensor([[-1.,  0.],
                [ 1.,  0.]])
        >>> transform.inverse(data).pos
        tensor([[0., 0.],
                [4., 0.]])
    """

    def __init__(self, by: str = "radius") -> None:
        if by not in ("radius", "edge"):
            raise ValueError(f"NormalizeScale: Expected 'by' in radius, edge (got '{by}')")
        self.by = by

    def forward(self, data: Data) -> Data:
        pos = require_pos(self, data)
        if len(pos) == 0:
            raise ValueError("NormalizeScale: Expected at least one point (got none)")
        center = pos.double().mean(dim=0, keepdim=True).to(pos.dtype)
        moved = pos - center
        if self.by == "edge":
            scale = mean_edge_length(*require_mesh(self, data))
        else:
            scale = torch.linalg.vector_norm(moved, dim=1).max()
        scale = torch.where(scale > 0, scale, torch.ones_like(scale)).reshape(1)
        data.pos, data.center, data.scale = moved / scale, center, scale
        return data

    def inverse(self, data: Data) -> Data:
        """Return a copy of ``data`` in its original units."""
        data = data.clone()
        pos, center, scale = (require(self, data, name) for name in ("pos", "center", "scale"))
        data.pos = pos * scale + center
        del data.center, data.scale
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(by='{self.by}')"
