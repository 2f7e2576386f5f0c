"""Mean smoothing of face normals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.transforms._mesh import corner_sums, face_geometry, face_graph, refresh, unit
from permutogeo.transforms._require import require_mesh

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class SmoothNormals(BaseTransform):
    r"""Smooths a mesh by the mean filter of its face normals ("Mesh Smoothing via Mean and Median
    Filtering Applied to Face Normals", Yagou et al., 2002).

    Each iteration averages normals over the neighbors of each face and moves the vertices to fit:

    .. math::
        \mathbf{m}_t &= \frac{\sum_{s \in N(t)} A_s \mathbf{n}_s}
        {\left\| \sum_{s \in N(t)} A_s \mathbf{n}_s \right\|}

        \mathbf{v} &\leftarrow \mathbf{v} + \frac{1}{\sum_{t \ni v} A_t} \sum_{t \ni v} A_t
        \left( (\mathbf{c}_t - \mathbf{v})^\top \mathbf{m}_t \right) \mathbf{m}_t

    where :math:`A` are areas, :math:`\mathbf{n}` normals and :math:`\mathbf{c}` centroids of faces,
    and :math:`N(t)` is face :math:`t` with its neighbors. Vertices without faces stay where they
    are. Normals, centroids and areas that the data have are computed anew.

    Args:
        iterations: How often.
        neighbors: The neighbors of a face have a ``"vertex"`` in common with it, or an ``"edge"``.
        keep: The name under which the positions before are kept, as :class:`Displacement` needs
            them.

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
        data.pos = smoothed(pos, face, self.iterations, self.neighbors)
        refresh(data)
        return data

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(iterations={self.iterations}, "
            f"neighbors='{self.neighbors}', keep={self.keep!r})"
        )


def smoothed(
    pos: Tensor,
    face: Tensor,
    iterations: int,
    neighbors: str = "vertex",
    on_step: Callable[[int], None] | None = None,
) -> Tensor:
    """Positions after so many steps of smoothing; ``on_step`` hears how many are done."""
    moved = pos.detach().cpu().double()  # small steps, many times
    corner = face.cpu()
    near = face_graph(corner, len(pos), 1 if neighbors == "vertex" else 2)
    around = corner_sums(corner, len(pos))
    for done in range(1, iterations + 1):
        moved = _step(moved, corner, near, around)
        if on_step is not None:
            on_step(done)
    return moved.to(pos.device, pos.dtype)


def _step(pos: Tensor, face: Tensor, near: csr_matrix, around: csr_matrix) -> Tensor:
    normal, center, area = face_geometry(pos, face)
    area = area.unsqueeze(1)
    mean = unit(torch.from_numpy(near @ (area * normal).numpy()))
    distance = ((center - pos[face]) * mean).sum(dim=-1, keepdim=True)  # [3, F, 1]
    shift = (area * distance * mean).reshape(-1, 3)
    total = torch.from_numpy(around @ shift.numpy())
    weight = torch.from_numpy(around @ area.repeat(3, 1).numpy())
    return pos + total / torch.where(weight > 0, weight, torch.ones_like(weight))
