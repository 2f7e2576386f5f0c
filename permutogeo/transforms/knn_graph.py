"""Graph of nearest neighbors."""

from __future__ import annotations

import torch
from scipy.spatial import cKDTree
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.data.require import require_pos, require_single


class KNNGraph(BaseTransform):
    r"""Adds ``edge_index`` from the nearest neighbors of each point, itself included, to the point.

    PyG's transform of this name needs a compiled package; this one uses SciPy.

    Args:
        k: Number of edges into each point, the loop included. With fewer than ``k`` points the
            graph is complete.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from permutogeo.transforms import KNNGraph
        >>> KNNGraph(2)(Data(pos=torch.tensor([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0]]))).edge_index
        tensor([[0, 1, 1, 0, 2, 1],
                [0, 0, 1, 1, 2, 2]])
    """

    def __init__(self, k: int = 16) -> None:
        if k < 1:
            raise ValueError(f"KNNGraph: Expected 'k' >= 1 (got {k})")
        self.k = k

    def forward(self, data: Data) -> Data:
        pos = require_pos(self, data)
        require_single(self, data)
        count = min(self.k, len(pos))
        place = pos.detach().cpu().numpy()
        near = cKDTree(place).query(place, range(1, count + 1))[1] if count else place[:, :0]
        source = torch.from_numpy(near).long().reshape(-1)
        target = torch.arange(len(pos)).repeat_interleave(count)
        data.edge_index = torch.stack([source, target]).to(pos.device)
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(k={self.k})"
