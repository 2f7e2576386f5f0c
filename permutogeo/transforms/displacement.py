"""Displacements between two sets of positions."""

from __future__ import annotations

from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.data.require import require, require_pos


class Displacement(BaseTransform):
    r"""Adds the displacements from ``pos`` to other positions of the same points, ``x [N, dim]``:

    .. math::
        \mathbf{x}_i = \mathbf{q}_i - \mathbf{p}_i

    After :class:`SmoothNormals` these are the vectors that `"Learning Sparse High Dimensional
    Filters" <https://arxiv.org/abs/1503.04949>`_ filters to denoise a mesh: the noise and the
    detail that smoothing removed. The denoised positions are ``data.pos + filter(data.x)``.

    Args:
        to: Name of the other positions.
        attr: Name of the result.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from torch_geometric.transforms import Compose
        >>> from permutogeo.transforms import Displacement, SmoothNormals
        >>> data = Data(pos=torch.eye(3), face=torch.tensor([[0], [1], [2]]))
        >>> Compose([SmoothNormals(keep="noisy"), Displacement("noisy")])(data)
        Data(pos=[3, 3], face=[3, 1], noisy=[3, 3], x=[3, 3])
    """

    def __init__(self, to: str, attr: str = "x") -> None:
        self.to = to
        self.attr = attr

    def forward(self, data: Data) -> Data:
        target, pos = require(self, data, self.to), require_pos(self, data)
        if target.shape != pos.shape:
            expected = f"'{self.to}' of the shape of 'pos', {list(pos.shape)}"
            raise ValueError(f"Displacement: Expected {expected} (got {list(target.shape)})")
        data[self.attr] = target - pos
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(to='{self.to}', attr='{self.attr}')"
