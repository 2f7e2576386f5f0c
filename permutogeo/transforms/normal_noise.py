"""Gaussian noise along vertex normals."""

from __future__ import annotations

import torch
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.data.geometry import mean_edge_length, update_normals, vertex_normals
from permutogeo.data.require import require_mesh
from permutogeo.transforms.random_source import RandomSource


class NormalNoise(BaseTransform):
    r"""Moves each vertex of a mesh along its normal by Gaussian noise.

    .. math::
        \mathbf{v}_i \leftarrow \mathbf{v}_i + \sigma \, \bar{e} \, \epsilon_i \, \mathbf{n}_i,
        \quad \epsilon_i \sim \mathcal{N}(0, 1)

    where :math:`\bar{e}` is the mean edge length. Normals, centroids and areas in the data are
    recomputed.

    Args:
        std: Standard deviation :math:`\sigma` relative to the mean edge length.
        keep: Attribute that stores the clean positions, as a training target.
        seed: Seed that gives the same noise at each call.
        generator: Random number generator; by default torch's global one.

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
        update_normals(data)
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(std={self.std}, keep={self.keep!r}, seed={self.seed})"
