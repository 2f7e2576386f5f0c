"""Synthetic noise for training: independent per vertex, correlated, and that of range sensors."""

from __future__ import annotations

import torch
from torch import Tensor

from permutogeo.data.geometry import mean_edge_length, vertex_normals
from permutogeo.denoising.vertex_update import VertexUpdate

# Kinds by frequency: along normals, isotropic with Gaussian length, Gaussian per axis, and strong
# noise at few vertices.
KINDS = ("normal", "isotropic", "normal", "jitter", "impulse", "isotropic")
# Kinds of meshes beside these: correlated between neighbors, along the line of sight, rounded in
# depth, stronger along one axis, of a level that varies over the surface, sums of two kinds, and
# rounded depth that was filtered a little, or much as by the fusion of many frames.
SCAN_KINDS = (
    *("smooth", "smooth", "ray", "quantized", "quantized", "anisotropic", "varying", "mixed"),
    *("scanner", "fused", "fused"),
)
# Range of the number of smoothing steps of correlated noise; neighbors then correlate by 0.5-0.98.
SMOOTHING_STEPS, FUSED_STEPS = (1, 40), (10, 80)
# Fused noise has longer waves: it is larger at the same slopes.
FUSED_FACTOR = 2.5


def add_noise(
    pos: Tensor,
    face: Tensor,
    level: float,
    kind: str,
    generator: torch.Generator,
    sight: Tensor | None = None,
) -> Tensor:
    """Return mesh vertices with noise of standard deviation ``level`` mean edge lengths.

    Args:
        pos: Positions ``[V, 3]``.
        face: Faces ``[3, F]``.
        level: Root mean square displacement in mean edge lengths.
        kind: One of :data:`KINDS` or :data:`SCAN_KINDS`.
        generator: Random numbers.
        sight: Line of sight ``[3]`` of the camera; by default a random direction.
    """
    std = level * float(mean_edge_length(pos, face))
    normal = vertex_normals(pos, face)
    if std == 0.0:
        return pos
    if sight is None:
        sight = random_rotation(generator)[0]
    ray = torch.nn.functional.normalize(sight.to(pos), dim=0)
    if kind in KINDS:
        return displace(pos, normal, std, kind, generator)
    if kind == "mixed":  # three quarters of the variance from one kind, a quarter from another
        first, second = (("smooth", "varying", "ray")[_integer(0, 2, generator)], "normal")
        moved = _scan_noise(pos, face, normal, ray, 0.75**0.5 * std, first, generator)
        return displace(moved, normal, 0.5 * std, second, generator)
    return _scan_noise(pos, face, normal, ray, std, kind, generator)


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


def smooth_noise(pos: Tensor, face: Tensor, steps: int, generator: torch.Generator) -> Tensor:
    """Return a Gaussian number per vertex ``[V, 1]`` of variance 1, smoothed over the surface."""
    value = torch.randn(len(pos), 1, generator=generator)
    return _unit_variance(VertexUpdate(face, len(pos)).average(value, steps)).to(pos)


def random_rotation(generator: torch.Generator) -> Tensor:
    """Return a uniformly distributed rotation matrix ``[3, 3]``."""
    q, r = torch.linalg.qr(torch.randn(3, 3, generator=generator, dtype=torch.float64))
    q = q * torch.diagonal(r).sign()
    return q * torch.linalg.det(q)


def _scan_noise(
    pos: Tensor,
    face: Tensor,
    normal: Tensor,
    ray: Tensor,
    std: float,
    kind: str,
    generator: torch.Generator,
) -> Tensor:
    """Return positions with noise of a kind that only meshes have."""
    size = torch.randn(len(pos), 1, generator=generator).to(pos)
    if kind == "anisotropic":
        scale = torch.rand(3, generator=generator).to(pos) ** 2 + 0.05
        axes = random_rotation(generator).to(pos)
        moved = torch.randn(len(pos), 3, generator=generator).to(pos) * scale @ axes
        return pos + std * moved / scale.square().sum().sqrt()
    if kind == "varying":
        factor = (0.9 * smooth_noise(pos, face, 60, generator)).exp()
        return pos + std * _unit_variance(size * factor) * normal
    low, high = FUSED_STEPS if kind == "fused" else SMOOTHING_STEPS
    steps = round(low * (high / low) ** float(torch.rand((), generator=generator)))
    if kind == "smooth":
        return pos + std * smooth_noise(pos, face, steps, generator) * normal
    # The rest is along the line of sight of a distant camera.
    slant = (normal @ ray).abs().clamp(min=0.25).unsqueeze(1)
    if kind == "ray":
        return pos + std * _unit_variance(size / slant) * ray
    depth = (pos @ ray).unsqueeze(1)
    if kind == "fused":
        noise = smooth_noise(pos, face, steps, generator)
        return pos + FUSED_FACTOR * std * noise * ray
    # Steps of a range camera: rounded depth, of noise correlated by the matching window.
    noise = smooth_noise(pos, face, max(1, steps // 4), generator)
    width, share = torch.rand(2, generator=generator).tolist()
    step = std * (1.5 + 2 * width)
    rounded = ((depth + (0.1 + 0.7 * share) * std * noise) / step).round() * step
    error = rounded - depth
    if kind == "scanner":  # and filtered afterwards
        update = VertexUpdate(face, len(pos))
        error = update.average(error.float(), _integer(1, 4, generator)).to(pos)
    return pos + std * _unit_variance(error - error.mean()) * ray


def _unit_variance(value: Tensor) -> Tensor:
    return value / value.square().mean().sqrt().clamp(min=1e-12)


def _integer(low: int, high: int, generator: torch.Generator) -> int:
    return int(torch.randint(low, high + 1, (), generator=generator))
