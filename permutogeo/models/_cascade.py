"""A surface on its way through the stages of a cascade."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor

from permutogeo.models._normal_filter import Surface

# Steps of plain smoothing, from a little to much.
SMOOTHING = (3, 12, 50)
# Steps of the update of positions between stages.
STEPS = 12
# The unit of the noise, in radians or edge lengths, and the least that is told apart.
NOISE_UNIT, LEAST_NOISE = 0.35, 0.002


class Pieces(Protocol):
    """A surface in pieces: triangles between vertices, or samples that are their own.

    Args:
        spacing: The length that counts as 1.
        steps: How many steps the last update of positions takes.
    """

    spacing: float
    steps: int

    def measure(self, pos: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Normals ``[N, 3]``, centers ``[N, 3]`` and areas ``[N]`` of the pieces."""

    def breadth(self, pos: Tensor) -> Tensor:
        """How wide the pieces are where they are thinnest, ``[N]``."""

    def neighbors(self) -> Tensor:
        """Pairs of pieces side by side, ``[2, P]``."""

    def smooth(self, pos: Tensor, iterations: int) -> Tensor:
        """Positions smoothed without regard to edges."""

    def fit(self, pos: Tensor, normal: Tensor, iterations: int) -> Tensor:
        """Positions moved so that the pieces have the normals ``normal``."""


def begin(pieces: Pieces, pos: Tensor) -> Surface:
    """The surface as it was measured, at positions ``[V, 3]`` in units of its spacing."""
    measured, start, measured_area = pieces.measure(pos)
    smoothed = [pieces.smooth(pos, SMOOTHING[0])]
    for before, steps in pairwise(SMOOTHING):
        smoothed.append(pieces.smooth(smoothed[-1], steps - before))
    normal, center, area = pieces.measure(smoothed[0])
    way = ((center - start) * normal).sum(dim=1).abs()
    return Surface(
        center=center,
        shape=normal,
        area=_relative(area),
        breadth=pieces.breadth(smoothed[0]),
        measured=measured,
        measured_center=start,
        measured_area=_relative(measured_area),
        smooth=torch.stack([normal, *(pieces.measure(each)[0] for each in smoothed[1:])], 1),
        estimate=normal,
        noise=torch.stack([estimate_noise(measured, pieces.neighbors()), _typical(way)]),
    )


def advance(pieces: Pieces, pos: Tensor, surface: Surface, estimate: Tensor) -> Surface:
    """The surface after a stage that estimates these normals: cleared of noise by them."""
    cleared = pieces.fit(pos, estimate, STEPS)
    normal, center, area = pieces.measure(cleared)
    return replace(
        surface,
        center=center,
        shape=normal,
        area=_relative(area),
        breadth=pieces.breadth(cleared),
        estimate=estimate,
    )


def estimate_noise(normal: Tensor, pairs: Tensor) -> Tensor:
    """Logarithm of the median angle between the normals of neighbors."""
    chord = torch.linalg.vector_norm(normal[pairs[0]] - normal[pairs[1]], dim=1)
    return _typical(2 * torch.asin((chord / 2).clamp(max=1)))


def _typical(size: Tensor) -> Tensor:
    """Logarithm of the median."""
    middle = size.median() if size.numel() else size.new_zeros(())
    return (middle.clamp(min=LEAST_NOISE) / NOISE_UNIT).log()


def _relative(area: Tensor) -> Tensor:
    mean = area.mean()
    # A piece of area 0 keeps a trace of weight, so that its own mass is never 0.
    return (area / mean).clamp(min=1e-6) if mean > 0 else torch.ones_like(area)
