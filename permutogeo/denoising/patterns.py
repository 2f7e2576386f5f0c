"""Whether displacements look like noise: noise neither repeats nor keeps to some places.

Independent displacements are split into noise and detail by their floor: noise is the same
everywhere, detail leaves quiet places. Correlated ones are judged by their unevenness and by what
they leave, and all by the share of single waves.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from permutogeo.data.geometry import vertex_normals
from permutogeo.denoising.noise_estimate import (
    CORRELATED,
    WAVES,
    Roughness,
    grouped_quantile,
    high_pass,
    ramp,
    roughness,
)
from permutogeo.denoising.relief import piecewise_smooth
from permutogeo.denoising.triangles import TriangleElements
from permutogeo.lattice import Lattice

# Radius of a window in wavelengths, and at most in extents of the mesh; most vertices of a window.
RADIUS, PART_OF_MESH, MOST = 2.5, 0.35, 1000
# Windows of a part, and its fewest vertices: fewer do not tell.
WINDOWS, FEWEST_VERTICES = 24, 1000
# Wave vectors that are tried in each window: lengths in terms of the typical one, and directions.
LENGTHS, DIRECTIONS = (0.45, 1.6, 10), 18
# Bandwidth in edge lengths of the windows in which the size of displacements is compared.
BANDWIDTH = 4.0
QUIET = 0.1
# Floor of independent displacements: this low quantile of their size in windows of this bandwidth
# in edge lengths, divided by their size on the whole part. Squared, it is the first value for fine
# detail of clean surfaces at most, and the second for noise; the share of noise is linear between.
FLOOR, FLOOR_BANDWIDTH, FLOORS = 0.05, 2.0, (0.42, 0.7)
# Detail that is lost is at most this in edge lengths, and at most this factor of the detail that is
# left, the high-pass signal of the denoised surface. What is larger is noise in any case.
LARGEST_DETAIL, OF_DETAIL_LEFT = 0.065, 1.2
# Limits from which displacements look less like noise, and at which they are none: their
# unevenness, times what is left of the angles between averaged normals if they are correlated (fine
# detail keeps these, the waves of scanners vanish with them); and the share of single waves, which
# may be larger for longer waves, of which fewer fit on a part.
UNEVEN_WAVES = (3.8, 7.2)
PERIODIC, SHORT_WAVES, PER_WAVELENGTH = (0.235, 0.28), 6.0, 0.03
# Correlated displacements are noise all the same if the median angle between faces falls to the
# first value; and terraces repeat, but with flat faces in open parts they are rounded depth.
OBVIOUS, ROUNDED = (0.25, 0.33), 0.01
# Kurtosis of displacements that remove the steps of a clean surface at most (1.8 if they are spread
# uniformly over a step), and that of rounded noise at least.
STEPS_KURTOSIS = (2.27, 2.36)


def noise_likeness(
    elements: TriangleElements,
    pos: Tensor,
    step: Tensor,
    fraction: Tensor,
    before: Roughness,
    after: Roughness,
    correlation: Tensor,
    is_open: Tensor,
    rounded: Tensor,
) -> Tensor:
    """Return how much the displacements of each part look like noise, ``[C]`` in [0, 1].

    Args:
        elements: The triangles.
        pos: Positions of the input ``[V, 3]`` in canonical orientation.
        step: Displacements, ``[V, 3]``.
        fraction: Fraction of them that would be applied, ``[C]``; parts with 0 are left out.
        before: Roughness of the input.
        after: Roughness of the denoised surface.
        correlation: Correlation of displacements between neighbors in each part, ``[C]``.
        is_open: Whether each part has a boundary, as range scans have, ``[C]``.
        rounded: How much they look like rounded noise, see :func:`rounded_noise`, ``[C]``.
    """
    if not bool((fraction > 0).any()):
        return torch.ones_like(fraction)
    uneven = unevenness(elements, pos, step)
    share_of_noise = noise_share(elements, pos, step)
    is_rounded = is_open & (before.angle < ROUNDED)
    rounded = torch.where(is_rounded, rounded, 0.0)
    waves = _left_waves(before, after)
    simpler = ramp(after.angle / before.angle.clamp(min=1e-6), OBVIOUS)
    likeness = torch.maximum(ramp(uneven * waves, UNEVEN_WAVES), simpler)
    is_patchy = (correlation > CORRELATED) & (correlation <= WAVES)
    likeness = torch.where(is_patchy, likeness, 1.0)
    if bool(((correlation > CORRELATED) & (fraction > 0) & ~is_rounded).any()):
        smooth = piecewise_smooth(elements, pos, pos + step, correlation, is_open)
        likeness = likeness * torch.where(is_rounded, 1.0, smooth)
    likeness = torch.where(
        correlation <= CORRELATED, torch.maximum(share_of_noise, rounded), likeness
    )
    length, share = periodicity(elements, pos, step, fraction * likeness > 0).unbind(1)
    longer = PER_WAVELENGTH * (length - SHORT_WAVES).clamp(min=0)
    is_noise = ramp(share - longer, PERIODIC)
    return likeness * torch.where(is_rounded, 1.0, is_noise)


def rounded_noise(elements: TriangleElements, pos: Tensor, step: Tensor, is_open: Tensor) -> Tensor:
    """Return how much displacements look like those of noise that was rounded, ``[C]`` in [0, 1].

    Those of a clean surface of steps, which is to stay, are spread evenly over the height of one.
    """
    height = (step * vertex_normals(pos, elements.face)).sum(dim=1)
    square, fourth = (_part_means(elements, height**power) for power in (2, 4))
    kurtosis = fourth / square.square().clamp(min=1e-30)
    return torch.where(is_open, 1 - ramp(kurtosis, STEPS_KURTOSIS), 0.0)


def is_even(elements: TriangleElements, pos: Tensor, moved: Tensor) -> bool:
    """Return whether correlated displacements are everywhere, as the noise of a scanner is."""
    before, after = roughness(elements, pos), roughness(elements, moved)
    score = unevenness(elements, pos, moved - pos) * _left_waves(before, after)
    owner = elements.part[elements.face[0]]
    return float(score.clamp(max=10.0)[owner].mean()) < UNEVEN_WAVES[0]


def periodicity(elements: TriangleElements, pos: Tensor, step: Tensor, wanted: Tensor) -> Tensor:
    """Return wavelength in edge lengths and share of single waves of displacements, ``[C, 2]``.

    In windows of a few wavelengths, noise has a share of 0.1 to 0.2 of its energy in its strongest
    plane wave, a regular pattern 0.3 to 1. Where few waves fit, noise has more.

    Args:
        elements: The triangles.
        pos: Positions of the input ``[V, 3]`` in canonical orientation.
        step: Displacements, ``[V, 3]``.
        wanted: Parts to look at ``[C]``; the others, and those of few vertices, get 0.
    """
    normal = vertex_normals(pos, elements.face)
    height = (step * normal).sum(dim=1).double()
    # Vertices and faces part by part, vertices along the first axis.
    order = pos[:, 0].argsort()
    order = order[elements.update.used.squeeze(1)[order]]
    order = order[elements.part[order].argsort(stable=True)]
    owner = elements.part[elements.face[0]]
    faces = elements.face[:, owner.argsort(stable=True)]
    counts = [torch.bincount(each, minlength=len(wanted)) for each in (elements.part[order], owner)]
    result = pos.new_zeros(len(wanted), 2)
    chosen = wanted & (counts[0] >= FEWEST_VERTICES)
    (first, last), (start, end) = (
        ((count.cumsum(0) - count).tolist(), count.cumsum(0).tolist()) for count in counts
    )
    for part in chosen.nonzero().flatten().tolist():
        length, edge = _wavelength(faces[:, start[part] : end[part]], pos, height)
        if length > 0:
            inside = order[first[part] : last[part]]
            around, up = pos[inside].double(), normal[inside].double()
            share = _share_of_waves(around, up, height[inside], length)
            result[part] = pos.new_tensor([length / edge, share])
    return result


def unevenness(elements: TriangleElements, pos: Tensor, step: Tensor) -> Tensor:
    """Return how unevenly the displacements of each part are spread, ``[C]``.

    Their kurtosis, 3 for Gaussian noise, divided by how quiet the quietest tenth of the surface is
    against the median. Noise is everywhere and gives 3 to 7; detail is in some places.
    """
    part, count = elements.part, elements.num_parts
    height = (step * vertex_normals(pos, elements.face)).sum(dim=1)
    edge = elements.local_edge(pos)
    moments = torch.stack([torch.ones_like(height), edge, height**2, height**4], 1).double()
    moments = moments.new_zeros(count, 4).index_add(0, part, moments * elements.update.used)
    size = moments[:, 0].clamp(min=1)
    square = (moments[:, 2] / size).clamp(min=1e-30)
    kurtosis = moments[:, 3] / size / square**2
    mean_edge = moments[:, 1] / size
    mean_edge = torch.where(mean_edge > 0, mean_edge, math.inf).to(pos.dtype)
    values = height**2 / square[part].to(pos.dtype)
    size_around = _window_means(pos / mean_edge[part].unsqueeze(1), part, values, BANDWIDTH).sqrt()
    quiet, median = (grouped_quantile(size_around, part, count, q) for q in (QUIET, 0.5))
    return kurtosis.to(pos.dtype) / (quiet / median.clamp(min=1e-12)).clamp(min=0.01)


def noise_share(elements: TriangleElements, pos: Tensor, step: Tensor) -> Tensor:
    """Return the share of noise in the independent displacements of each part, ``[C]`` in [0, 1].

    The rest is detail. Noise is of one size everywhere, in terms of the whole part or of the local
    edge length: the better of the two counts.
    """
    part, count = elements.part, elements.num_parts
    height = (step * vertex_normals(pos, elements.face)).sum(dim=1)
    edge = elements.local_edge(pos).clamp(min=1e-12)
    used = elements.update.used.squeeze(1)
    mean_edge = _part_means(elements, edge)
    # Vertices without faces have no edges, and parts of them alone no mean: one window holds them.
    unit = torch.where(mean_edge > 0, mean_edge, math.inf)[part].unsqueeze(1)
    floor = height.new_zeros(count)
    for length in (mean_edge[part].clamp(min=1e-30), edge):
        square = (height / length).square()
        size = _part_means(elements, square)
        relative = square / size[part].clamp(min=1e-30)
        around = _window_means(pos / unit, part, relative, FLOOR_BANDWIDTH)
        floor = torch.maximum(floor, grouped_quantile(around[used], part[used], count, FLOOR))
    left = _part_means(elements, high_pass(elements, pos + step).square()).sqrt()
    largest = (OF_DETAIL_LEFT * left).clamp(max=LARGEST_DETAIL)
    detail = (largest.square() / size.clamp(min=1e-30)).clamp(max=1)
    return 1 - torch.minimum(ramp(floor, FLOORS), detail)


def _part_means(elements: TriangleElements, values: Tensor) -> Tensor:
    """Return the mean over the vertices of each part that have faces, ``[C]``; 0 without any."""
    pair = torch.stack([values, torch.ones_like(values)], 1) * elements.update.used
    total = pair.new_zeros(elements.num_parts, 2).index_add(0, elements.part, pair)
    return total[:, 0] / total[:, 1].clamp(min=1)


def _window_means(pos: Tensor, part: Tensor, values: Tensor, bandwidth: float) -> Tensor:
    """Return means of values ``[V]`` around each vertex, over the vertices of its part."""
    # Parts are kept apart by a coordinate of their own.
    feature = torch.cat([pos, 100.0 * part.unsqueeze(1)], 1)
    lattice = Lattice.build(feature.to(pos.dtype) / bandwidth)
    sums = lattice.slice(lattice.blur(lattice.splat(torch.stack([values, values * 0 + 1], 1))))
    return (sums[:, 0] / sums[:, 1].clamp(min=1e-12)).clamp(min=0)


def _left_waves(before: Roughness, after: Roughness) -> Tensor:
    """Return the root of what is left of the angles between averaged normals, ``[C]``."""
    return (after.wave / before.wave.clamp(min=1e-6)).clamp(max=1).sqrt()


def _wavelength(face: Tensor, pos: Tensor, height: Tensor) -> tuple[float, float]:
    """Return the typical wavelength of heights on some faces, and their mean edge length.

    From the correlation of heights along edges, as of waves of one length in all directions.
    """
    start, end = face.reshape(-1), face.roll(-1, 0).reshape(-1)
    edge = float(torch.linalg.vector_norm((pos[start] - pos[end]).double(), dim=1).mean())
    square = float((height[start] ** 2 + height[end] ** 2).sum())
    if square <= 1e-20 * len(start) or edge == 0.0:
        return 0.0, edge
    correlation = 2 * float((height[start] * height[end]).sum()) / square
    phase = torch.linspace(0.05, 2.4, 200, dtype=torch.float64)
    nearest = (torch.special.bessel_j0(phase) - max(correlation, 0.0)).abs().argmin()
    return 2 * math.pi * edge / float(phase[nearest]), edge


def _share_of_waves(pos: Tensor, normal: Tensor, height: Tensor, wavelength: float) -> float:
    """Return the mean share of the strongest plane wave in windows of a part."""
    extent = float(torch.linalg.vector_norm(pos.amax(dim=0) - pos.amin(dim=0)))
    radius = min(RADIUS * wavelength, PART_OF_MESH * extent)
    middle = torch.linspace(0, len(pos) - 1, WINDOWS + 2, dtype=torch.float64)[1:-1].round().long()
    total = torch.zeros(2, dtype=torch.float64)
    for index in middle.tolist():
        total += _strongest_wave(pos, normal, height, index, radius, wavelength).cpu()
    return float(total[0] / total[1].clamp(min=1e-30))


def _strongest_wave(
    pos: Tensor, normal: Tensor, height: Tensor, index: int, radius: float, wavelength: float
) -> Tensor:
    """Return the energy of the strongest plane wave around a vertex and that of all, ``[2]``."""
    offset = pos - pos[index]
    distance = torch.linalg.vector_norm(offset, dim=1)
    near = ((distance < radius) & (normal @ normal[index] > 0.3)).nonzero().squeeze(1)
    near = near[:: 1 + len(near) // MOST]
    if len(near) < 30:
        return pos.new_zeros(2)
    up = torch.nn.functional.normalize(normal[near].mean(dim=0), dim=0)
    tangents = torch.linalg.svd(up.unsqueeze(0)).Vh[1:]
    weight = (distance[near] / radius * (math.pi / 2)).cos().square()
    value = height[near] - (weight * height[near]).sum() / weight.sum()
    energy = (weight * value.square()).sum()
    low, high, count = LENGTHS
    lengths = torch.linspace(math.log(low), math.log(high), count, dtype=torch.float64).exp()
    angles = torch.arange(DIRECTIONS, dtype=torch.float64) * (math.pi / DIRECTIONS)
    waves = torch.stack([angles.cos(), angles.sin()])[:, :, None] * lengths
    phase = (offset[near] @ tangents.t()) @ (waves.flatten(1) * (2 * math.pi / wavelength))
    sums = ((weight * value) @ phase.cos()).square() + ((weight * value) @ phase.sin()).square()
    share = 2 * sums.max() / (weight.sum() * energy).clamp(min=1e-30)
    return torch.stack([share * energy, energy]) / weight.sum()
