"""Random rotations."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.data.require import require_pos
from permutogeo.transforms.random_source import RandomSource

NORMALS = ("normal", "face_normal")


class RandomRotation(BaseTransform):
    """Rotates positions and normals about the origin by a random angle.

    Args:
        degrees: Largest angle, in either direction.
        axis: Axis of the rotation, 0, 1 or 2; by default a random direction, which with 180 degrees
            gives all rotations alike.
        seed: Seed that gives the same rotation at each call.
        generator: Random number generator; by default torch's global one.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from permutogeo.transforms import RandomRotation
        >>> data = Data(pos=torch.rand(9, 3), normal=torch.eye(3).repeat(3, 1))
        >>> RandomRotation(axis=2)(data)
        Data(pos=[9, 3], normal=[9, 3])
    """

    def __init__(
        self,
        degrees: float = 180.0,
        axis: int | None = None,
        seed: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        if not 0 <= degrees <= 180:
            raise ValueError(f"RandomRotation: Expected 'degrees' from 0 to 180 (got {degrees})")
        if axis not in (None, 0, 1, 2):
            raise ValueError(f"RandomRotation: Expected 'axis' of 0, 1, 2 or None (got {axis})")
        self.degrees = degrees
        self.axis = axis
        self.seed = seed
        self._random = RandomSource("RandomRotation", seed, generator)

    def forward(self, data: Data) -> Data:
        transform_linearly(self, data, self._matrix())
        return data

    def _matrix(self) -> Tensor:
        generator = self._random()
        if self.axis is None and self.degrees == 180:
            # The orthogonal factor of a Gaussian matrix is uniform over all rotations.
            factor, upper = torch.linalg.qr(
                torch.randn(3, 3, generator=generator, dtype=torch.float64)
            )
            factor = factor * upper.diagonal().sign()
            return factor * factor.det().sign()
        if self.axis is None:
            axis = torch.randn(3, generator=generator, dtype=torch.float64)
            axis = axis / axis.norm()
        else:
            axis = torch.eye(3, dtype=torch.float64)[self.axis]
        turn = 2 * torch.rand((), generator=generator, dtype=torch.float64) - 1
        angle = turn * math.radians(self.degrees)
        # Rodrigues' formula.
        x, y, z = axis.tolist()
        cross = torch.tensor([[0, -z, y], [z, 0, -x], [-y, x, 0]], dtype=torch.float64)
        return torch.eye(3) + angle.sin() * cross + (1 - angle.cos()) * cross @ cross

    def __repr__(self) -> str:
        return f"{type(self).__name__}(degrees={self.degrees}, axis={self.axis}, seed={self.seed})"


def transform_linearly(owner: object, data: Data, matrix: Tensor) -> None:
    """Apply a matrix to the positions, and its inverse transpose to the normals.

    Args:
        owner: The transform that errors name.
        data: Changed: pass a copy, as PyG does.
        matrix: Matrix ``[3, 3]`` with a positive determinant, float64.
    """
    pos = require_pos(owner, data, dims=(3,))
    data.pos = pos @ matrix.t().to(pos)
    inverse = torch.linalg.inv(matrix)
    for name in NORMALS:
        normal = data.get(name)
        if isinstance(normal, Tensor):
            moved = normal @ inverse.to(normal)
            length = torch.linalg.vector_norm(moved, dim=1, keepdim=True)
            data[name] = moved / length.clamp(min=torch.finfo(moved.dtype).tiny)
