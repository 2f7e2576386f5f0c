"""The surface between the stages of the cascade: initial state and update after a stage."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from permutogeo.denoising.normal_filter import Surface
from permutogeo.denoising.triangles import TriangleElements
from permutogeo.lattice import Lattice

# Numbers of Taubin smoothing steps whose normals are candidates of every stage.
SMOOTHING = (3, 12, 50)
# Vertex update steps between stages.
STEPS = 12
# Unit of the noise levels (radians or edge lengths), and their lower bound.
NOISE_UNIT, LEAST_NOISE = 0.35, 0.002
# Bandwidth in edge lengths of the window in which local noise cues are averaged, and their number:
# the movement under each amount of smoothing, and the angle to the smoothest normals.
CUE_BANDWIDTH = 3.0
NUM_CUES = len(SMOOTHING) + 1


def initial_surface(elements: TriangleElements, pos: Tensor) -> Surface:
    """Return the surface before the first stage.

    Args:
        elements: The triangles.
        pos: Noisy positions ``[V, 3]`` in units of the spacing.
    """
    input_normal, input_center, input_area = elements.geometry(pos)
    smoothed = [elements.smooth(pos, SMOOTHING[0])]
    for before, steps in pairwise(SMOOTHING):
        smoothed.append(elements.smooth(smoothed[-1], steps - before))
    normal, center, area = elements.geometry(smoothed[0])
    displacement = ((center - input_center) * normal).sum(dim=1).abs()
    geometry = [(normal, center), *(elements.geometry(each)[:2] for each in smoothed[1:])]
    return Surface(
        center=center,
        normal=normal,
        area=_relative(area),
        width=elements.width(smoothed[0]),
        input_normal=input_normal,
        input_center=input_center,
        input_area=_relative(input_area),
        smoothed_normals=torch.stack([each for each, _ in geometry], 1),
        estimate=normal,
        log_noise=torch.stack(
            [estimate_noise(input_normal, elements.neighbors()), _log_median(displacement)]
        ),
        local_noise=_local_noise(input_normal, input_center, geometry),
    )


def update_surface(
    elements: TriangleElements, pos: Tensor, surface: Surface, estimate: Tensor
) -> Surface:
    """Return the surface after a stage: the input positions fitted to the estimated normals."""
    fitted = elements.fit(pos, estimate, STEPS)
    normal, center, area = elements.geometry(fitted)
    return replace(
        surface,
        center=center,
        normal=normal,
        area=_relative(area),
        width=elements.width(fitted),
        estimate=estimate,
    )


def estimate_noise(normal: Tensor, pairs: Tensor) -> Tensor:
    """Return the logarithm of the median angle between normals of adjacent elements."""
    chord = torch.linalg.vector_norm(normal[pairs[0]] - normal[pairs[1]], dim=1)
    return _log_median(2 * torch.asin((chord / 2).clamp(max=1)))


def _local_noise(
    input_normal: Tensor, input_center: Tensor, smoothed: list[tuple[Tensor, Tensor]]
) -> Tensor:
    """Return the logarithms of noise cues averaged around each element, ``[N, NUM_CUES]``.

    Noise that is correlated between neighbors moves little under a few smoothing steps and more
    under many, unlike independent noise.
    """
    moved = [((center - input_center) * normal).sum(dim=1) for normal, center in smoothed]
    chord = torch.linalg.vector_norm(input_normal - smoothed[-1][0], dim=1)
    squares = torch.stack([*moved, chord], 1).square()
    lattice = Lattice.build(smoothed[0][1] / CUE_BANDWIDTH)
    total = lattice.slice(
        lattice.blur(lattice.splat(torch.cat([squares, torch.ones_like(squares[:, :1])], 1)))
    )
    mean = total[:, :-1] / total[:, -1:].clamp(min=1e-12)
    return (mean.sqrt().clamp(min=LEAST_NOISE) / NOISE_UNIT).log()


def _log_median(values: Tensor) -> Tensor:
    median = values.median() if values.numel() else values.new_zeros(())
    return (median.clamp(min=LEAST_NOISE) / NOISE_UNIT).log()


def _relative(area: Tensor) -> Tensor:
    """Return areas divided by their mean."""
    mean = area.mean()
    # The lower bound keeps the mass of an element of area 0 positive.
    return (area / mean).clamp(min=1e-6) if mean > 0 else torch.ones_like(area)
