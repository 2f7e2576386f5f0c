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
# Bandwidths in edge lengths of mean normals, the first also of the window in which local noise cues
# are averaged; and the number of cues: the movement under each amount of smoothing, and the angles
# to the smoothest normals and to the mean normals.
CUE_BANDWIDTHS = (4.0, 9.0)
NUM_CUES = len(SMOOTHING) + 1 + len(CUE_BANDWIDTHS)


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
        local_noise=_local_noise(input_normal, input_center, input_area, geometry),
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
    input_normal: Tensor,
    input_center: Tensor,
    input_area: Tensor,
    smoothed: list[tuple[Tensor, Tensor]],
) -> Tensor:
    """Return the logarithms of noise cues averaged around each element, ``[N, NUM_CUES]``.

    Noise that is correlated between neighbors moves little under a few smoothing steps and more
    under many, unlike independent noise; waves of many edges show only beside mean normals.
    """
    moved = [((center - input_center) * normal).sum(dim=1) for normal, center in smoothed]
    lattices = [Lattice.build(smoothed[0][1] / bandwidth) for bandwidth in CUE_BANDWIDTHS]
    total = input_area.unsqueeze(1) * input_normal
    means = [torch.nn.functional.normalize(_blur(each, total), dim=1) for each in lattices]
    chords = [
        torch.linalg.vector_norm(input_normal - other, dim=1) for other in (smoothed[-1][0], *means)
    ]
    squares = torch.stack([*moved, *chords, torch.ones_like(chords[0])], 1).square()
    sums = _blur(lattices[0], squares)
    mean = sums[:, :-1] / sums[:, -1:].clamp(min=1e-12)
    return (mean.sqrt().clamp(min=LEAST_NOISE) / NOISE_UNIT).log()


def _blur(lattice: Lattice, x: Tensor) -> Tensor:
    return lattice.slice(lattice.blur(lattice.splat(x)))


def _log_median(values: Tensor) -> Tensor:
    median = values.median() if values.numel() else values.new_zeros(())
    return (median.clamp(min=LEAST_NOISE) / NOISE_UNIT).log()


def _relative(area: Tensor) -> Tensor:
    """Return areas divided by their mean."""
    mean = area.mean()
    # The lower bound keeps the mass of an element of area 0 positive.
    return (area / mean).clamp(min=1e-6) if mean > 0 else torch.ones_like(area)
