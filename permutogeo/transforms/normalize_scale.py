"""Positions of a standard size."""

from __future__ import annotations

import torch
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.transforms._mesh import mean_edge_length
from permutogeo.transforms._require import require, require_mesh, require_pos


class NormalizeScale(BaseTransform):
    r"""Centers positions and divides them by their size, and can be undone.

    Unlike PyG's transform of this name it keeps ``center [1, dim]`` and ``scale [1]``, so that
    :meth:`inverse` restores the user's units before a result is written, and a single point (or
    many at one place) gives 0 rather than NaN.

    Args:
        by: The size that becomes 1: the largest distance from the center (``"radius"``), or the
            mean length of a mesh's edges (``"edge"``), which makes bandwidths independent of units
            and of the size of the mesh.

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
        """A copy of ``data`` in the units it had before."""
        data = data.clone()
        pos, center, scale = (require(self, data, name) for name in ("pos", "center", "scale"))
        data.pos = pos * scale + center
        del data.center, data.scale
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(by='{self.by}')"
