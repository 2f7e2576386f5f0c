"""Synthetic noise for training."""

from __future__ import annotations

import torch
from torch import Tensor

from permutogeo.data.geometry import mean_edge_length, vertex_normals

# Kinds by frequency: along normals, isotropic with Gaussian length, Gaussian per axis, and strong
# noise at few vertices.
KINDS = ("normal", "isotropic", "normal", "jitter", "impulse", "isotropic")


def add_noise(
    pos: Tensor, face: Tensor, level: float, kind: str, generator: torch.Generator
) -> Tensor:
    """Return mesh vertices with noise of standard deviation ``level`` mean edge lengths."""
    std = level * float(mean_edge_length(pos, face))
    return displace(pos, vertex_normals(pos, face), std, kind, generator)


def displace(
    pos: Tensor, normal: Tensor, std: float, kind: str, generator: torch.Generator
) -> Tensor:
    """Return positions with noise of the given kind and root mean square ``std``."""
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
    return pos + std * size * direction


def random_rotation(generator: torch.Generator) -> Tensor:
    """Return a uniformly distributed rotation matrix ``[3, 3]``."""
    q, r = torch.linalg.qr(torch.randn(3, 3, generator=generator, dtype=torch.float64))
    q = q * torch.diagonal(r).sign()
    return q * torch.linalg.det(q)
