"""Limits of the displacement of vertices, so that no mesh leaves worse than it came."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from permutogeo.data.geometry import face_geometry
from permutogeo.denoising.noise_estimate import reasons, roughness, trust
from permutogeo.denoising.patterns import noise_likeness, rounded_noise
from permutogeo.denoising.report import STILL, DenoiseReport
from permutogeo.denoising.triangles import TriangleElements

# A vertex moves at most this many standard deviations of the noise, plus its movement under this
# many smoothing steps and the mean of the same around it; and this many mean heights of the
# triangles around it.
DEVIATIONS, SMOOTHED, HEIGHTS = 4.0, 20, 3.0
# Where displacements correlate between neighbors (from none at the first value to all at the
# second), a vertex may move farther by this factor of the displacements around it.
CORRELATED, AROUND = (0.2, 0.6), 2.5
# Steps of the neighborhood in which heights and displacements are averaged.
NEIGHBORHOOD = 4
# A vertex of the boundary moves at most this factor of the mean around it.
BOUNDARY_FACTOR = 2.5
# Two adjacent faces whose normals have a lower cosine form a fold.
FOLD = -0.85
# A face that turned away from its input has at least this cosine with its estimated normal.
EXPLAINED = 0.7
# Backtracking from turned faces: each time the displacement is halved, at last it is 0.
HALVINGS, BACKTRACKS = 3, 24
# Largest change of the volume of a closed part, and the change from which it is corrected.
MOST_CHANGE, CORRECTED = 0.004, 0.001


@dataclass(frozen=True)
class Judgment:
    """Noise of a mesh and the parts of it that are left alone.

    Args:
        noise: Mean over the faces of the estimated noise, in edge lengths.
        parts: Number of parts.
        left_alone: Number of parts that are left alone.
        reasons: Why, most frequent reason first.
    """

    noise: float
    parts: int
    left_alone: int
    reasons: tuple[str, ...]


def judge(
    elements: TriangleElements, pos: Tensor, moved: Tensor, estimate: Tensor
) -> tuple[Tensor, Judgment]:
    """Return positions within all limits, and what was found.

    Parts that are not much simpler than before are left alone; see ``noise_estimate``.

    Args:
        elements: The triangles.
        pos: Positions of the input in units of the spacing.
        moved: Denoised positions.
        estimate: Estimated normals of the faces ``[F, 3]``.
    """
    num_faces = torch.bincount(elements.part[elements.face[0]], minlength=elements.num_parts)
    before, after = roughness(elements, pos), roughness(elements, moved)
    correlation = elements.update.correlations(moved - pos, elements.part)
    is_open = ~_closed(elements)
    rounded = rounded_noise(elements, pos, moved - pos, is_open)
    fraction = trust(before, after, num_faces, correlation, is_open, rounded)
    fraction = fraction * noise_likeness(
        elements, pos, moved - pos, fraction, before, after, correlation, is_open, rounded
    )
    kept = (fraction <= 0) & (num_faces > 0)
    why = reasons(before, num_faces) if bool(kept.any()) else []
    counts = Counter(why[index] for index in kept.nonzero().flatten().tolist())
    judgment = Judgment(
        noise=float((before.noise * num_faces).sum() / num_faces.sum()),
        parts=int((num_faces > 0).sum()),
        left_alone=int(kept.sum()),
        reasons=tuple(reason for reason, _ in counts.most_common()),
    )
    limited = limit_displacement(
        elements, pos, moved, estimate, fraction, before.noise, correlation
    )
    return limited, judgment


def summarize(method: str, step: Tensor, judgment: Judgment | None = None) -> DenoiseReport:
    """Return the report of displacements ``[V, 3]`` in edge lengths."""
    length = torch.linalg.vector_norm(step, dim=1)
    moved, largest = float(length.mean()), float(length.max())
    if judgment is None:
        return DenoiseReport(method, None, moved, largest)
    left_alone = judgment.parts if largest <= STILL else judgment.left_alone
    return DenoiseReport(
        method, judgment.noise, moved, largest, judgment.parts, left_alone, judgment.reasons
    )


def limit_displacement(
    elements: TriangleElements,
    pos: Tensor,
    moved: Tensor,
    estimate: Tensor,
    fraction: Tensor,
    noise: Tensor,
    correlation: Tensor,
) -> Tensor:
    """Return positions between ``pos`` and ``moved`` that satisfy all limits, ``[V, 3]``.

    Args:
        elements: The triangles.
        pos: Positions of the input in units of the spacing.
        moved: Denoised positions.
        estimate: Estimated normals of the faces ``[F, 3]``.
        fraction: Fraction of the displacement to apply to each part, ``[C]``.
        noise: Estimated noise of each part in local edge lengths, ``[C]``.
        correlation: Correlation of displacements between neighbors in each part, ``[C]``.
    """
    step = (moved - pos) * fraction[elements.part].unsqueeze(1).to(pos.dtype)
    if not bool(step.any()):
        return pos.clone()
    step = _limit_lengths(elements, pos, step, noise, correlation)
    step = _limit_boundary(elements, step)
    step = _keep_volume(elements, pos, step)
    return pos + _turn_back(elements, pos, step, estimate)


def signed_volumes(elements: TriangleElements, pos: Tensor) -> Tensor:
    """Return the signed volume of each part, ``[C]``; meaningless for open parts."""
    a, b, c = pos.double()[elements.face]
    volume = (a * torch.linalg.cross(b, c)).sum(dim=1) / 6
    total = volume.new_zeros(elements.num_parts)
    return total.index_add(0, elements.part[elements.face[0]], volume)


def _closed(elements: TriangleElements) -> Tensor:
    """Return whether each part has no boundary, ``[C]``."""
    closed = torch.ones(elements.num_parts, dtype=torch.bool, device=elements.face.device)
    closed[elements.part[elements.update.boundary.squeeze(1)]] = False
    return closed


def _limit_lengths(
    elements: TriangleElements, pos: Tensor, step: Tensor, noise: Tensor, correlation: Tensor
) -> Tensor:
    """Limit displacements by the noise and by the heights of the triangles around.

    Noise that is correlated between neighbors is larger than the estimate; it moves under
    smoothing, and so do the vertices around.
    """
    update = elements.update
    height = update.triangle_mean(elements.width(pos).unsqueeze(1))
    limit = HEIGHTS * update.average(height, NEIGHBORHOOD)
    smoothed = (elements.smooth(pos, SMOOTHED) - pos).square().sum(dim=1, keepdim=True)
    edge = elements.local_edge(pos).unsqueeze(1)
    explained = DEVIATIONS * noise[elements.part].unsqueeze(1).to(pos.dtype) * edge
    explained = explained + smoothed.sqrt() + update.average(smoothed, NEIGHBORHOOD).sqrt()
    low, high = CORRELATED
    share = AROUND * ((correlation - low) / (high - low)).clamp(0, 1)[elements.part].unsqueeze(1)
    around = update.average(step.square().sum(dim=1, keepdim=True), NEIGHBORHOOD).sqrt()
    return _shorten(step, torch.minimum(limit, explained + share * around))


def _limit_boundary(elements: TriangleElements, step: Tensor) -> Tensor:
    """Limit the displacement of the boundary by that of the inside."""
    boundary = elements.update.boundary
    if not bool(boundary.any()):
        return step
    length = torch.linalg.vector_norm(step, dim=1, keepdim=True)
    inside = (~boundary & elements.update.used).to(step.dtype)
    weight = elements.update.average(torch.cat([inside, inside * length], 1), NEIGHBORHOOD)
    limit = BOUNDARY_FACTOR * weight[:, 1:] / weight[:, :1].clamp(min=1e-6)
    limited = _shorten(step, torch.where(boundary, limit, length))
    length = torch.linalg.vector_norm(limited, dim=1, keepdim=True)
    mean = (length * inside).sum() / inside.sum().clamp(min=1)
    at_boundary = length[boundary].mean()
    factor = (mean / at_boundary.clamp(min=1e-12)).clamp(max=1)
    return torch.where(boundary, factor * limited, limited)


def _keep_volume(elements: TriangleElements, pos: Tensor, step: Tensor) -> Tensor:
    """Offset parts along their normals to the volume of the input.

    Noise has mean 0: of open parts, the volume between the surfaces before and after is to vanish.
    """
    closed = _closed(elements)
    target = signed_volumes(elements, pos)
    step = _offset(elements, pos, step, torch.where(closed, 0.0, _swept(elements, pos, step)))
    for last in (False, False, True):
        change = signed_volumes(elements, pos + step) - target
        relative = change.abs() / target.abs().clamp(min=1e-30)
        wrong = closed & (relative > (MOST_CHANGE if last else CORRECTED))
        if not bool(wrong.any()):
            break
        if last:  # thin or inverted parts: take back a part of the displacement
            factor = torch.where(wrong, MOST_CHANGE / relative.clamp(min=1e-30), 1.0)
            return step * factor[elements.part].unsqueeze(1).to(step.dtype)
        step = _offset(elements, pos, step, torch.where(wrong, change, 0.0))
    return step


def _offset(elements: TriangleElements, pos: Tensor, step: Tensor, volume: Tensor) -> Tensor:
    """Return the displacement with the volume ``[C]`` of an offset along the normals removed."""
    if not bool(volume.any()):
        return step
    normal, _, area = face_geometry(pos + step, elements.face)
    total = volume.new_zeros(elements.num_parts)
    total = total.index_add(0, elements.part[elements.face[0]], area.to(volume.dtype))
    offset = (volume / total.clamp(min=1e-30))[elements.part].unsqueeze(1).to(step.dtype)
    direction = elements.update.triangle_mean(area.unsqueeze(1) * normal)
    return step - offset * torch.nn.functional.normalize(direction, dim=1)


def _swept(elements: TriangleElements, pos: Tensor, step: Tensor) -> Tensor:
    """Return the volume between the surfaces before and after, to first order, ``[C]``."""
    normal, _, area = face_geometry(pos + 0.5 * step, elements.face)
    volume = (area * (normal * step[elements.face].mean(dim=0)).sum(dim=1)).double()
    total = volume.new_zeros(elements.num_parts)
    return total.index_add(0, elements.part[elements.face[0]], volume)


def _turn_back(elements: TriangleElements, pos: Tensor, step: Tensor, estimate: Tensor) -> Tensor:
    """Shorten displacements until they turn no face over and fold no pair of faces."""
    face, update = elements.face, elements.update
    before = face_geometry(pos, face)[0]
    # Noise may have folded a face over: it is meant to turn back.
    was_folded = (before * estimate).sum(dim=1) < 0
    first, second = elements.neighbors()
    fold_before = (before[first] * before[second]).sum(dim=1) < FOLD
    shortened = torch.zeros_like(update.used, dtype=torch.int32)
    for _ in range(BACKTRACKS):
        after = face_geometry(pos + step, face)[0]
        explained = (after * estimate).sum(dim=1)
        turned = (explained < EXPLAINED) & ((after * before).sum(dim=1) < 0)
        bad = (turned | (explained < 0)) & ~was_folded
        bad |= ~after.any(dim=1) & before.any(dim=1)
        fold = ((after[first] * after[second]).sum(dim=1) < FOLD) & ~fold_before
        bad[first[fold]] = True
        bad[second[fold]] = True
        if not bool(bad.any()):
            return step
        vertex = torch.zeros_like(update.used)
        vertex[face[:, bad].reshape(-1)] = True
        shortened = shortened + vertex
        step = torch.where(vertex, torch.where(shortened > HALVINGS, 0.0, 0.5 * step), step)
    return _without_faces(step, face, bad)


def _without_faces(step: Tensor, face: Tensor, bad: Tensor) -> Tensor:
    """Return the displacement without the vertices of given faces."""
    step = step.clone()
    step[face[:, bad].reshape(-1)] = 0.0
    return step


def _shorten(step: Tensor, limit: Tensor) -> Tensor:
    length = torch.linalg.vector_norm(step, dim=1, keepdim=True)
    return step * (limit / length.clamp(min=1e-12)).clamp(max=1)
