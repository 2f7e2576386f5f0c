"""One stage of the cloud denoiser: local fits at several sizes, mixed by a small network."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from scipy.spatial import cKDTree
from torch import Tensor

from permutogeo.denoising.cloud_noise import spread_order
from permutogeo.denoising.local_fits import (
    BLEND,
    ROWS,
    Fits,
    fit_quadrics,
    nearest,
    project_points,
)

# Neighborhood sizes, relative to the base size of the noise.
SCALES = (0.6, 1.3, 2.8)
# Smallest and largest base size.
SIZES = (14, 260)
# Base size over which only a part of the points are centers of fits.
DENSE = 6
# Numbers of nearest neighbors whose means are candidates.
MEANS = (6, 16)
# Neighbors that a point is moved away from, for an even density.
PUSHING = 8
# Part of the spacing that is added to the noise in the unit of the network.
LEAST_UNIT = 0.1


@dataclass
class Candidates:
    """Displacements that a stage chooses from.

    Args:
        step: Displacements ``[N, C, 3]``.
        scalar: Invariants of the neighborhoods ``[N, F]``.
        unit: Length that the network's input is measured in.
        normal: Unoriented normals ``[N, 3]``.
    """

    step: Tensor
    scalar: Tensor
    unit: float
    normal: Tensor

    def split(self, rows: int) -> list[Candidates]:
        """Return the candidates of consecutive points."""
        parts = zip(*(x.split(rows) for x in (self.step, self.scalar, self.normal)), strict=True)
        return [Candidates(step, scalar, self.unit, normal) for step, scalar, normal in parts]


def base_size(noise: float) -> int:
    """Return the number of neighbors for noise in units of the spacing."""
    low, high = SIZES
    return max(low, min(high, round(math.pi * (1.6 + 2.2 * noise) ** 2)))


def num_candidates(has_normals: bool) -> int:
    """Return the number of displacements of a stage."""
    return len(SCALES) * (4 if has_normals else 3) + len(MEANS) + 1


def num_features(has_normals: bool) -> int:
    """Return the number of inputs of the network of a stage."""
    count = num_candidates(has_normals)
    return count * (count + 1) // 2 + len(SCALES) * (10 if has_normals else 9) + 6


def make_candidates(
    pos: Tensor, tree: cKDTree, sigma: float, share: float, normal: Tensor | None
) -> Candidates:
    """Return the candidates of a stage.

    Args:
        pos: Positions ``[N, 3]`` in units of the spacing.
        tree: Search tree of the positions.
        sigma: Standard deviation of the noise of the input.
        share: Part of the noise that is left in ``pos``, which gives the neighborhood size.
        normal: Unoriented normals of the last stage ``[N, 3]``.
    """
    size = base_size(share * sigma)
    stride = max(1, size // DENSE)
    center, owner, weight = _centers(pos, stride)
    sizes = [max(8, min(len(pos), round(scale * size))) for scale in SCALES]
    index, _ = nearest(tree, pos[center], sizes[-1])
    unit = math.hypot(sigma, LEAST_UNIT)
    steps, scalars, normals = [], [], []
    for count in sizes:
        fits = fit_quadrics(pos, index[:, :count], center, 0.5 * share * sigma, normal)
        moved, direction = project_points(fits, pos, owner, weight)
        steps.append(moved)
        scalars.append((_invariants(fits, unit)[owner] * weight.unsqueeze(2)).sum(dim=1))
        normals.append(direction)
    even, crowding = _evening(pos, tree)
    pairs = [(0, 1), (0, 2), (1, 2)]
    agreement = [(normals[i] * normals[j]).sum(dim=1).square() for i, j in pairs]
    level = pos.new_full((len(pos),), sigma)
    scalar = torch.stack([*agreement, level, torch.log(level + 0.01), crowding], 1)
    step = torch.cat([*steps, even], 1)
    return Candidates(step, torch.cat([*scalars, scalar], 1), unit, normals[1])


def _centers(pos: Tensor, stride: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the centers of fits, and which of them are blended at each point, with weights."""
    everyone = torch.arange(len(pos), device=pos.device)
    if stride == 1:
        return everyone, everyone.unsqueeze(1), pos.new_ones(len(pos), 1)
    center = spread_order(pos)[stride // 2 :: stride]
    part = pos[center].cpu().numpy()
    owner, distance = nearest(cKDTree(part), pos, BLEND)
    reach = 1.2 * distance[:, -1:].clamp(min=1e-12)
    weight = (1 - (distance / reach).square()).square()
    return center, owner, weight / weight.sum(dim=1, keepdim=True)


def _invariants(fits: Fits, unit: float) -> Tensor:
    """Return residuals, shape, curvature and evenness of neighborhoods."""
    robust = fits.quadric[:, 1]
    sum_ = (robust[:, 3] + robust[:, 5]).abs()
    difference = (robust[:, 3] - robust[:, 5]).square() + robust[:, 4].square()
    bend = torch.stack([sum_, difference.sqrt()], 1) * (fits.radius / unit).unsqueeze(1)
    residual = torch.log1p(fits.residual / unit)
    return torch.cat([residual, fits.shape, torch.log1p(bend), fits.evenness.unsqueeze(1)], 1)


def _evening(pos: Tensor, tree: cKDTree) -> tuple[Tensor, Tensor]:
    """Return the displacements to means of neighbors and away from near ones, and the density."""
    index, distance = nearest(tree, pos, MEANS[-1] + 1)
    around = pos[index[:, 1:]] - pos.unsqueeze(1)
    distance = distance[:, 1:].clamp(min=1e-12)
    means = [around[:, :count].mean(dim=1) for count in MEANS]
    last = min(PUSHING, around.size(1)) - 1
    reach = distance[:, last : last + 1].clamp(min=1e-9)
    force = (1 - distance / reach).clamp(min=0) * reach / distance
    push = -(around * force.unsqueeze(2)).sum(dim=1)
    return torch.stack([*means, push], 1), torch.log(reach.squeeze(1))


class CloudStage(torch.nn.Module):
    """Network that mixes candidate displacements.

    Its input are the dot products between the candidates and further invariants, its output is a
    factor for each candidate: the result turns with the cloud, and no sign of a normal matters.

    Args:
        has_normals: Whether normals of an earlier stage are known.
        hidden_channels: Width of the network.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, has_normals: bool, hidden_channels: int = 64):
        super().__init__()
        self.has_normals = has_normals
        inputs, outputs = num_features(has_normals), num_candidates(has_normals)
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("scale", torch.ones(inputs))
        self.first = torch.nn.Linear(inputs, hidden_channels)
        self.second = torch.nn.Linear(hidden_channels, hidden_channels)
        self.last = torch.nn.Linear(hidden_channels, outputs)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters: the stage starts as a robust quadric fit."""
        for layer in (self.first, self.second, self.last):
            layer.reset_parameters()
        with torch.no_grad():
            self.last.weight.mul_(0.1)
            self.last.bias.zero_()
            self.last.bias[(4 if self.has_normals else 3) + 2] = 1.0

    def features(self, found: Candidates) -> Tensor:
        """Return the input of the network, ``[N, F]``."""
        step = found.step / found.unit
        dot = step @ step.transpose(1, 2)
        row, column = torch.triu_indices(*dot.shape[1:], device=dot.device)
        dot = dot[:, row, column]
        return torch.cat([dot.sign() * torch.log1p(dot.abs()), found.scalar], 1)

    def forward(self, feature: Tensor, step: Tensor) -> Tensor:
        """Return displacements ``[N, 3]``."""
        hidden = ((feature - self.mean) / self.scale).clamp(-6, 6)
        hidden = torch.nn.functional.silu(self.first(hidden))
        hidden = torch.nn.functional.silu(self.second(hidden))
        return (self.last(hidden).unsqueeze(1) @ step).squeeze(1)

    def mix(self, found: Candidates) -> Tensor:
        """Return displacements ``[N, 3]``, computed in chunks of points."""
        parts = found.split(ROWS)
        return torch.cat([self(self.features(part), part.step) for part in parts])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(has_normals={self.has_normals})"
