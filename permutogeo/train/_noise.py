"""The noise that a denoiser learns to remove."""

from __future__ import annotations

import torch
from torch import Tensor

from permutogeo.transforms._mesh import mean_edge_length, vertex_normals

# Along normals, in any direction, the same with the axes apart, and at few vertices but strong.
KINDS = ("normal", "isotropic", "normal", "jitter", "impulse", "isotropic")


def add_noise(
    pos: Tensor, face: Tensor, level: float, kind: str, generator: torch.Generator
) -> Tensor:
    """Vertices of a mesh moved at random, ``level`` mean edges far in the root mean square."""
    far = level * float(mean_edge_length(pos, face))
    return move(pos, vertex_normals(pos, face), far, kind, generator)


def move(pos: Tensor, normal: Tensor, far: float, kind: str, generator: torch.Generator) -> Tensor:
    """Positions moved at random, ``far`` in the root mean square."""
    count = len(pos)
    size = torch.randn(count, 1, generator=generator).to(pos)
    direction = normal
    if kind in ("isotropic", "jitter"):
        direction = torch.randn(count, 3, generator=generator).to(pos)
    if kind == "isotropic":
        direction = torch.nn.functional.normalize(direction, dim=1)
    elif kind == "jitter":
        size = torch.full_like(size, 3**-0.5)
    elif kind == "impulse":
        hit = torch.rand(count, 1, generator=generator).to(pos) < 0.3
        size = size * hit / 0.3**0.5
    return pos + far * size * direction


def rotation(generator: torch.Generator) -> Tensor:
    """A rotation matrix ``[3, 3]``, all equally likely."""
    q, r = torch.linalg.qr(torch.randn(3, 3, generator=generator, dtype=torch.float64))
    q = q * torch.diagonal(r).sign()
    return q * torch.linalg.det(q)
