"""Mesh smoothing by mean filtering of face normals."""

from __future__ import annotations

from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.data.geometry import smooth_by_normals, update_normals
from permutogeo.data.require import require_mesh


class SmoothNormals(BaseTransform):
    r"""Smooths a mesh by mean filtering of its face normals ("Mesh Smoothing via Mean and Median
    Filtering Applied to Face Normals", Yagou et al., 2002).

    Each iteration averages the normals of neighboring faces and moves the vertices to fit them:

    .. math::
        \mathbf{m}_t &= \frac{\sum_{s \in N(t)} A_s \mathbf{n}_s}
        {\left\| \sum_{s \in N(t)} A_s \mathbf{n}_s \right\|}

        \mathbf{v} &\leftarrow \mathbf{v} + \frac{1}{\sum_{t \ni v} A_t} \sum_{t \ni v} A_t
        \left( (\mathbf{c}_t - \mathbf{v})^\top \mathbf{m}_t \right) \mathbf{m}_t

    where :math:`A` are areas, :math:`\mathbf{n}` normals and :math:`\mathbf{c}` centroids of faces,
    and :math:`N(t)` is face :math:`t` with its neighbors. Unreferenced vertices do not move.
    Normals, centroids and areas in the data are recomputed.

    Args:
        iterations: Number of iterations.
        neighbors: Neighbors of a face share a ``"vertex"`` or an ``"edge"`` with it.
        keep: Attribute that stores the input positions, for :class:`Displacement`.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from permutogeo.transforms import SmoothNormals
        >>> data = Data(pos=torch.eye(3), face=torch.tensor([[0], [1], [2]]))
        >>> SmoothNormals(iterations=5, keep="noisy")(data)
        Data(pos=[3, 3], face=[3, 1], noisy=[3, 3])
    """

    def __init__(
        self, iterations: int = 10, neighbors: str = "vertex", keep: str | None = None
    ) -> None:
        if iterations < 0:
            raise ValueError(f"SmoothNormals: Expected 'iterations' >= 0 (got {iterations})")
        if neighbors not in ("vertex", "edge"):
            expected = "'neighbors' in vertex, edge"
            raise ValueError(f"SmoothNormals: Expected {expected} (got '{neighbors}')")
        self.iterations = iterations
        self.neighbors = neighbors
        self.keep = keep

    def forward(self, data: Data) -> Data:
        pos, face = require_mesh(self, data)
        if self.keep is not None:
            data[self.keep] = pos
        data.pos = smooth_by_normals(pos, face, self.iterations, self.neighbors)
        update_normals(data)
        return data

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(iterations={self.iterations}, "
            f"neighbors='{self.neighbors}', keep={self.keep!r})"
        )
