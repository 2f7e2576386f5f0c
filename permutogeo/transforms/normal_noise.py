"""Noise along the normals of a mesh."""

from __future__ import annotations

import torch
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.transforms._mesh import mean_edge_length, refresh, vertex_normals
from permutogeo.transforms._random import RandomSource
from permutogeo.transforms._require import require_mesh


class NormalNoise(BaseTransform):
    r"""Moves each vertex of a mesh along its normal by Gaussian noise.

    .. math::
        \mathbf{v}_i \leftarrow \mathbf{v}_i + \sigma \, \bar{e} \, \epsilon_i \, \mathbf{n}_i,
        \quad \epsilon_i \sim \mathcal{N}(0, 1)

    where :math:`\bar{e}` is the mean edge length. Normals, centroids and areas that the data have
    are computed anew.

    Args:
        std: The standard deviation :math:`\sigma` relative to the mean edge length.
        keep: The name under which the clean positions are kept, as the target of training.
        seed: Make the same noise at each call.
        generator: The random numbers; by default torch's own.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from permutogeo.transforms import NormalNoise
        >>> data = Data(pos=torch.eye(3), face=torch.tensor([[0], [1], [2]]))
        >>> NormalNoise(std=0.2, keep="clean")(data)
        Data(pos=[3, 3], face=[3, 1], clean=[3, 3])
    """

    def __init__(
        self,
        std: float = 0.2,
        keep: str | None = None,
        seed: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        if not 0.0 <= std < float("inf"):
            raise ValueError(f"NormalNoise: Expected a finite 'std' >= 0 (got {std})")
        self.std = std
        self.keep = keep
        self.seed = seed
        self._random = RandomSource("NormalNoise", seed, generator)

    def forward(self, data: Data) -> Data:
        pos, face = require_mesh(self, data)
        if self.keep is not None:
            data[self.keep] = pos
        noise = torch.randn(len(pos), 1, generator=self._random(), dtype=pos.dtype)
        step = self.std * mean_edge_length(pos, face)
        data.pos = pos + step * noise.to(pos.device) * vertex_normals(pos, face)
        refresh(data)
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(std={self.std}, keep={self.keep!r}, seed={self.seed})"
