"""Whether a denoised surface is piecewise smooth, or rough at all lengths as natural terrain is.

The noise of scanners has a length: smoothing over longer ones leaves the bare surface. Terrain has
none: what is removed from it looks as what is left.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from permutogeo.data.geometry import face_geometry
from permutogeo.denoising.noise_estimate import WAVES, grouped_quantile, ramp
from permutogeo.denoising.triangles import TriangleElements

# Averaging steps above which the waves of each band are, one octave each: from standard deviations
# of 0.5, 1, 2 and 4 edge lengths to twice that.
BANDS = (1, 4, 16, 64)
# Waves of the last band of a denoised surface over those of the band before, if it is terrain and
# if it is piecewise smooth: for displacements of correlation up to WAVES, the same in parts of
# fewer vertices, where the quartile varies more, or without boundary; and for longer waves.
GROWTH, FEW, FEW_GROWTH, WAVES_GROWTH = (2.75, 3.1), 4000, (3.4, 4.2), (4.6, 5.4)
# Fused scans are smooth at the edge length: if the waves of the second band of the input are as
# many times as large as those of the first, less growth is asked of long waves. Fused scans have
# 5.6 to 7.9, enlarged height maps 2 to 4.2.
FUSED, FUSED_GROWTH = (4.4, 5.2), (2.6, 3.1)
# Planes have no waves to compare. Terrain keeps waves in the last band of 0.06 of the median
# displacement at least, planes of scans 0.035 at most.
LEFT = (0.04, 0.055)


def piecewise_smooth(
    elements: TriangleElements,
    pos: Tensor,
    moved: Tensor,
    correlation: Tensor,
    is_open: Tensor,
) -> Tensor:
    """Return how much each denoised part looks piecewise smooth, ``[C]`` in [0, 1].

    Where a surface is smooth, waves of double length are four or more times as large: heights over
    the mean curvature grow with a high power of the length. Those of terrain grow with the power
    0.3 to 1 ("The Fractal Geometry of Nature", Mandelbrot 1982). The growth in the input is divided
    out where it is larger than 1: noise of a short length does not grow.

    Args:
        elements: The triangles.
        pos: Positions of the input, ``[V, 3]``.
        moved: Denoised positions.
        correlation: Correlation of displacements between neighbors in each part, ``[C]``.
        is_open: Whether each part has a boundary, as range scans have, ``[C]``.
    """
    part, used = elements.part, elements.update.used.squeeze(1)
    size, count = torch.bincount(part[used], minlength=elements.num_parts), elements.num_parts
    tiny = 1e-12
    left, found = wave_sizes(elements, moved, BANDS[2:]), wave_sizes(elements, pos, BANDS[:3])
    growth = left[1] / left[0].clamp(min=tiny)
    finer, coarser = (b / a.clamp(min=tiny) for a, b in pairwise(found))
    in_scan = growth / coarser.clamp(min=1)
    rough = torch.where(is_open & (size >= FEW), ramp(in_scan, GROWTH), ramp(in_scan, FEW_GROWTH))
    unfused = torch.maximum(ramp(finer, FUSED), ramp(growth, FUSED_GROWTH))
    in_waves = torch.minimum(ramp(growth, WAVES_GROWTH), unfused)
    rough = torch.where(correlation > WAVES, in_waves, rough)
    length = torch.linalg.vector_norm(moved - pos, dim=1)
    median = grouped_quantile(length[used], part[used], count, 0.5)
    return torch.maximum(1 - rough, ramp(left[1] / median.clamp(min=tiny), LEFT))


def wave_sizes(
    elements: TriangleElements, pos: Tensor, bands: tuple[int, ...] = BANDS
) -> list[Tensor]:
    """Return the size of the waves of each part in bands of an octave each, ``[C]`` per band.

    It is a lower quartile, which ignores creases.

    Args:
        elements: The triangles.
        pos: Positions, ``[V, 3]``.
        bands: Averaging steps above which the waves of each band are, each four times the last.
    """
    update = elements.update
    inside = (update.used & ~update.boundary).squeeze(1)
    part = elements.part[inside]
    finer, sizes = update.average(pos, bands[0]), []
    for steps in bands:
        coarser = update.average(finer, 3 * steps)
        normal = update.triangle_mean(face_geometry(coarser, elements.face)[0])
        up = torch.nn.functional.normalize(normal, dim=1)
        height = ((finer - coarser) * up).sum(dim=1, keepdim=True)
        wave = (height - update.average(height, 4 * steps)).squeeze(1).abs()
        sizes.append(grouped_quantile(wave[inside], part, elements.num_parts, 0.25))
        finer = coarser
    return sizes
