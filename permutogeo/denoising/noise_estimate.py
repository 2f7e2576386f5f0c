"""Noise estimate of a mesh, and the decision whether a denoised surface is to be trusted."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from permutogeo.data.geometry import face_geometry
from permutogeo.denoising.triangles import TriangleElements

# Lower quartile of the high-pass signal of independent noise of standard deviation 1.
QUARTILE = 0.48
# Below this number of faces the statistics of a part are unreliable.
FEWEST_FACES = 60
# Below this estimate, in edge lengths, there is no noise at all; nor below this median angle
# between adjacent faces in radians, since noise leaves few faces coplanar.
LEAST_NOISE, LEAST_ANGLE = 0.002, 0.001
# A denoised part is trusted if it is much simpler than its input: the median angle between
# adjacent faces falls to the first value at least, or the lower quartile of the high-pass signal
# does; at the second value it is left alone, with a linear blend between.
SIMPLER = (0.55, 0.66)
SMOOTHER = (0.07, 0.12)
# High-pass signal from the first value of the noise on, which few clean surfaces reach. It decides
# alone there, unless the median angle nearly vanishes, or keeps its value while the signal falls,
# as on coarse smooth shapes: the third value limits the fraction of the signal over that of the
# angle, which is 0.32 or more on clean meshes. Displacements are not applied in full then, since
# those of coarse meshes hold detail, too: at this fraction the sum of both errors is least.
NOISY, SMOOTHER_NOISY, SMOOTHER_THAN_SIMPLER = 0.06, (0.14, 0.19), (0.28, 0.34)
IN_DOUBT = 0.75
# Detail is less independent than noise: the signal of noise has a correlation between neighbors of
# -0.3 to -0.2, that of detail -0.26 to -0.1. The limits above are for the first two values, double
# at this much less, and are within these factors.
WHITE, WHITER, WHITE_FACTORS = (-0.245, -0.225), -0.04, ((0.55, 1.3), (0.5, 1.1))
# The signal is cut at this many medians before it is correlated, since creases are larger.
LARGEST_SIGNAL = 3.0
# Median angles where displacements correlate between neighbors by the first value at least: the
# networks for scanners take fine detail for noise more easily.
CORRELATED, SIMPLER_CORRELATED = 0.25, (0.5, 0.56)
# The high-pass signal must fall to this fraction at least in any case, unless the median angle
# nearly vanishes, as on the faces of a box.
LEAST_SMOOTHER = (0.45, 0.6)
NEARLY_FLAT = (0.05, 0.1)
# Noise of long waves, as of fused scans, has little high-pass signal: displacements that correlate
# between neighbors by the first value at least are trusted by the median angle alone; in open
# parts, as scans are, by that angle and the same of normals averaged over this many steps.
WAVES, WAVES_SIMPLER = 0.8, (0.36, 0.5)
FEWER_WAVES, LESS_SIMPLER, AVERAGED = (0.56, 0.64), (0.53, 0.58), 2
# Largest increase of the fraction of slivers, unless the noise is obvious.
MORE_SLIVERS = (0.015, 0.03)
# Fractions and angles that name the reason: slivers, coarse meshes, no noise.
SLIVER_SHAPE, MANY_SLIVERS = 0.12, 0.3
COARSE_ANGLE = 0.14
NO_NOISE = 0.02


@dataclass(frozen=True)
class Roughness:
    """Statistics of the parts of a mesh, one row per connected component.

    Args:
        noise: Standard deviation of independent noise along the normals, in local edge lengths,
            ``[C]``. Fine detail counts as noise: it is an upper bound.
        signal: Lower quartile of the high-pass signal in local edge lengths, ``[C]``.
        correlation: Correlation of that signal between neighbors, ``[C]``.
        angle: Median angle between adjacent faces in radians, ``[C]``.
        wave: The same angle between normals that are averaged over neighbors, ``[C]``.
        slivers: Fraction of the faces that are slivers, ``[C]``.
    """

    noise: Tensor
    signal: Tensor
    correlation: Tensor
    angle: Tensor
    wave: Tensor
    slivers: Tensor


def roughness(elements: TriangleElements, pos: Tensor) -> Roughness:
    """Return the roughness of each part at given positions.

    A low quantile of the high-pass signal ignores creases.
    """
    update, part = elements.update, elements.part
    signal = high_pass(elements, pos)
    used = update.used.squeeze(1)
    quartile, largest = (
        grouped_quantile(signal[used].abs(), part[used], elements.num_parts, q) for q in (0.25, 0.5)
    )
    largest = LARGEST_SIGNAL * largest[part]
    correlation = update.correlations(signal.clamp(-largest, largest).unsqueeze(1), part)
    sharp = face_geometry(pos, elements.face)[0]
    blunt = update.centers(update.average(update.triangle_mean(sharp), AVERAGED))
    blunt = torch.nn.functional.normalize(blunt, dim=1)
    owner = part[elements.face[0, elements.neighbors()[0]]]
    median, wave = (
        grouped_quantile(_angles(elements, each), owner, elements.num_parts, 0.5)
        for each in (sharp, blunt)
    )
    sliver = (elements.width(pos) < SLIVER_SHAPE * elements.longest_edge(pos)).to(pos.dtype)
    owner = part[elements.face[0]]
    count = torch.bincount(owner, minlength=elements.num_parts).clamp(min=1)
    slivers = torch.zeros_like(median).index_add(0, owner, sliver) / count
    return Roughness(quartile / QUARTILE, quartile, correlation, median, wave, slivers)


def high_pass(elements: TriangleElements, pos: Tensor) -> Tensor:
    """Return the high-pass signal of each vertex in local edge lengths, ``[V]``.

    It is the deviation of a vertex from the mean of its neighbors along the normal, minus the mean
    of the same over its neighbors: curvature cancels.
    """
    update = elements.update
    normal, _, _ = face_geometry(update.smooth(pos, 2), elements.face)
    direction = torch.nn.functional.normalize(update.triangle_mean(normal), dim=1)
    height = ((update.neighbor_mean(pos) - pos) * direction).sum(dim=1, keepdim=True)
    signal = (height - update.neighbor_mean(height)).squeeze(1)
    return signal / elements.local_edge(pos).clamp(min=1e-12)


def trust(
    before: Roughness,
    after: Roughness,
    num_faces: Tensor,
    correlation: Tensor,
    is_open: Tensor,
    rounded: Tensor,
) -> Tensor:
    """Return the fraction of the displacement to apply to each part, ``[C]`` in [0, 1].

    Noise is what a much simpler surface nearby explains. A clean surface has none: smoothing it
    leaves it about as complicated as it was.

    Args:
        before: Roughness of the input.
        after: Roughness of the denoised surface.
        num_faces: Number of faces of each part.
        correlation: Correlation of displacements between neighbors in each part.
        is_open: Whether each part has a boundary, as range scans have.
        rounded: How much displacements look like rounded noise, in [0, 1]: parts of coplanar faces
            have no other noise.
    """
    tiny = 1e-6
    simpler = after.angle / before.angle.clamp(min=tiny)
    smoother = after.signal / before.signal.clamp(min=tiny)
    is_simpler = torch.where(
        correlation < CORRELATED, ramp(simpler, SIMPLER), ramp(simpler, SIMPLER_CORRELATED)
    )
    flattened = ramp(simpler, NEARLY_FLAT)
    white, other = (
        (2 ** ((before.correlation - value) / WHITER)).clamp(*factors)
        for value, factors in zip(WHITE, WHITE_FACTORS, strict=True)
    )
    relative = smoother / simpler.clamp(min=tiny)
    is_smoother = torch.maximum(
        ramp(smoother / white, SMOOTHER_NOISY),
        IN_DOUBT * ramp(relative / other, SMOOTHER_THAN_SIMPLER),
    )
    accepted = torch.where(
        before.noise > NOISY,
        torch.maximum(is_smoother, flattened),
        torch.maximum(is_simpler, ramp(smoother, SMOOTHER)),
    )
    accepted = accepted * torch.maximum(ramp(smoother, LEAST_SMOOTHER), flattened)
    accepted = accepted * torch.maximum(
        ramp(after.slivers - before.slivers, MORE_SLIVERS), ramp(smoother, SMOOTHER)
    )
    accepted = torch.where(before.noise > LEAST_NOISE, accepted, 0.0)
    fewer = ramp(after.wave / before.wave.clamp(min=tiny), FEWER_WAVES)
    in_scan = torch.where(is_open, torch.minimum(fewer, ramp(simpler, LESS_SIMPLER)), 0.0)
    waves = torch.maximum(ramp(simpler, WAVES_SIMPLER), in_scan)
    accepted = torch.maximum(accepted, torch.where(correlation > WAVES, waves, 0.0))
    accepted = torch.where(before.angle < LEAST_ANGLE, accepted * rounded, accepted)
    return torch.where(num_faces >= FEWEST_FACES, accepted, 0.0)


def reasons(before: Roughness, num_faces: Tensor) -> list[str]:
    """Return why each part would be left alone, in words."""
    found = []
    for index in range(len(num_faces)):
        if num_faces[index] < FEWEST_FACES:
            found.append("few faces")
        elif before.slivers[index] > MANY_SLIVERS:
            found.append("slivers")
        elif before.noise[index] < NO_NOISE or before.angle[index] < LEAST_ANGLE:
            found.append("no noise")
        elif before.angle[index] > COARSE_ANGLE:
            found.append("too coarse to tell noise from shape")
        else:
            found.append("no noise that can be told from shape")
    return found


def grouped_quantile(value: Tensor, group: Tensor, count: int, quantile: float) -> Tensor:
    """Return a quantile of the values of each group, ``[count]``; 0 for empty groups."""
    size = torch.bincount(group, minlength=count)
    place = ((size - 1).clamp(min=0) * quantile).round().long()
    if value.numel() == 0:
        return value.new_zeros(count)
    if count == 1:  # needs no sorting
        return value.kthvalue(1 + int(place)).values.unsqueeze(0)
    order = value.argsort()
    order = order[group[order].argsort(stable=True)]
    place = place + size.cumsum(0) - size
    found = value[order][place.clamp(max=len(value) - 1)]
    return torch.where(size > 0, found, 0.0)


def _angles(elements: TriangleElements, normal: Tensor) -> Tensor:
    """Return the angles between normals ``[F, 3]`` of adjacent faces."""
    first, second = elements.neighbors()
    chord = torch.linalg.vector_norm(normal[first] - normal[second], dim=1)
    return 2 * torch.asin((chord / 2).clamp(max=1))


def ramp(value: Tensor, limits: tuple[float, float]) -> Tensor:
    """Return 1 below the first limit, 0 above the second, linear between."""
    low, high = limits
    return ((high - value) / (high - low)).clamp(0, 1)
