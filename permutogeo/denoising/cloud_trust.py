"""Whether displacements of points are noise: coarse and thin parts, and the size of the noise."""

from __future__ import annotations

import math

import torch
from scipy.spatial import cKDTree
from torch import Tensor

from permutogeo.denoising.cloud_noise import NUM_PROBES, every
from permutogeo.denoising.local_fits import (
    BLEND,
    Fits,
    evenness_of,
    fit_quadrics,
    nearest,
    neighbor_tree,
)

# Sizes of neighborhoods: deviations from quadrics are compared between the first two, and the
# others show two sheets.
SMALL, TWICE, WIDE, WIDEST = 14, 28, 56, 112
# Growth of the deviation from SMALL to TWICE neighbors: noise alone at the first value, shape at
# the second; the same among nearby points, where it varies more, and from TWICE to WIDE neighbors.
GROWTH, LOCAL_GROWTH, LATER_GROWTH = (1.06, 1.26), (1.16, 1.36), (1.3, 2.5)
# Of coarse clouds, noise below the first number of spacings is left alone, above the second it is
# removed.
COARSE_NOISE = (0.2, 0.4)
# Lower quartile of the deviations from quadrics of SMALL points, over the standard deviation of the
# noise; a tenth more is allowed.
QUARTILE = 0.796 / 1.1
# Evenness of the heights (see `Fits`) of one sheet and of two, as a mean over nearby probes.
EVENNESS = (0.73, 0.77)
# Two sheets closer than this many spacings are not told apart by their nearest points.
THINNEST = 2.5
NUM_NEARBY, NUM_AROUND = 16, 48
# The same for the median of the whole cloud and the widest neighborhoods, which tells sheets of
# three standard deviations apart.
WHOLE_EVENNESS = 0.715
# A shape that is too fine for its points is told from noise where the median deviation from
# quadrics of SMALL points exceeds this many spacings and grows this much to WIDE neighbors: noise
# is the same everywhere, so that the first decile of the deviations is close to their median, and
# around one sheet. Each pair holds the last value of noise and the first of such a shape.
UNRESOLVED = (0.45, 0.6)
WIDE_GROWTH = (1.25, 1.45)
SAMENESS = (0.48, 0.36)
SMALL_EVENNESS = (0.666, 0.682)
# Neighbors in the denoised cloud whose displacements are compared; the evenness of these around one
# sheet, a standard deviation of it for one point, and the excess of two sheets.
AROUND, ONE_SHEET, DEVIATION, TWO_SHEETS = 64, 0.642, 0.35, 0.014


def displacement_trust(pos: Tensor, tree: cKDTree, sigma: float, spacing: float) -> Tensor:
    """Return the fraction of its displacement that each point is to move, ``[N]`` in [0, 1].

    In a coarse cloud the deviations from quadrics grow with the neighborhood, or differ from place
    to place: they are of the shape, not of noise. On two sheets that are closer than the points of
    one of them, heights are spread to both sides rather than around the middle.

    Args:
        pos: Positions ``[N, 3]``.
        tree: Search tree of the positions.
        sigma: Estimated standard deviation of the noise.
        spacing: Point spacing.
    """
    if len(pos) <= WIDEST:
        return pos.new_ones(len(pos))
    probe = every(pos, NUM_PROBES)
    index, _ = nearest(tree, pos[probe], WIDEST)
    small, twice, wide, widest = (
        fit_quadrics(pos, index[:, :size], probe, 0.0) for size in (SMALL, TWICE, WIDE, WIDEST)
    )
    is_thin = _thickness(widest).median() < THINNEST * spacing
    if is_thin and widest.evenness.median() > WHOLE_EVENNESS:
        return pos.new_zeros(len(pos))
    probe_tree = cKDTree(pos[probe].cpu().numpy())
    near = nearest(probe_tree, pos, NUM_NEARBY)[0]
    is_thin = _thickness(wide)[near].median(dim=1).values < THINNEST * spacing
    single = torch.where(is_thin, _ramp(wide.evenness[near].mean(dim=1), EVENNESS), 1.0)
    around = nearest(probe_tree, pos[probe], NUM_AROUND)[0]
    fine = _fine_trust(small, twice, wide, sigma, around)[near[:, :BLEND]].mean(dim=1)
    fine = fine.clamp(max=_noise_trust(small, wide, spacing))
    return (fine * single).to(pos.dtype)


def one_sheet(start: Tensor, moved: Tensor, normal: Tensor) -> float:
    """Return whether points were moved to the sheet that they are from, 1 if so, 0 if not.

    The heights of noise are Gaussian. If its level is taken to be too high, both sides of a wall
    are moved onto one surface, from two sides.

    Args:
        start: Positions of the input ``[N, 3]``.
        moved: Denoised positions, ``[N, 3]``.
        normal: Unoriented normals of these, ``[N, 3]``.
    """
    probe = every(moved, NUM_PROBES)
    index, _ = nearest(neighbor_tree(moved), moved[probe], AROUND)
    own = normal[probe].unsqueeze(2)
    height = ((moved - start)[index] @ own).squeeze(2)
    same = ((normal[index] @ own).squeeze(2).square() > 0.5).to(height)  # not across an edge
    total = same.sum(dim=1)
    height = height - ((same * height).sum(dim=1) / total.clamp(min=1)).unsqueeze(1)
    evenness = evenness_of(height, same)[total > AROUND // 2]
    if len(evenness) == 0:
        return 1.0
    least = ONE_SHEET + DEVIATION / len(moved) ** 0.5
    return float(_ramp(evenness.median(), (least, least + TWO_SHEETS)))


def _fine_trust(small: Fits, twice: Fits, wide: Fits, sigma: float, near: Tensor) -> Tensor:
    """Return 1 at probes where a cloud is fine or noise is large, 0 where it is coarse."""
    residual, second, third = (
        fits.residual[:, 0].clamp(min=1e-300) for fits in (small, twice, wide)
    )
    growth, later = second / residual, third / second
    coarse = torch.maximum(
        1 - _ramp(growth[near].median(dim=1).values, LOCAL_GROWTH),
        1 - _ramp(later[near].median(dim=1).values, LATER_GROWTH),
    ).clamp(min=1 - float(_ramp(growth.median(), GROWTH)))
    spacing = (small.radius * (math.pi / SMALL) ** 0.5)[near].median(dim=1).values
    level = (residual[near].quantile(0.25, dim=1) / QUARTILE).clamp(max=sigma) / spacing
    return 1 - _ramp(level / coarse.clamp(min=1e-6), COARSE_NOISE)


def _noise_trust(small: Fits, wide: Fits, spacing: float) -> float:
    """Return 0 for deviations of a shape that is too fine for its points, 1 for those of noise."""
    residual = small.residual[:, 0]
    middle = residual.median().clamp(min=1e-300)
    shape = 1 - _ramp(middle / spacing, UNRESOLVED)
    shape *= 1 - _ramp(wide.residual[:, 0].median() / middle, WIDE_GROWTH)
    differs = 1 - _ramp(-residual.quantile(0.1) / middle, (-SAMENESS[0], -SAMENESS[1]))
    is_double = 1 - _ramp(small.evenness.median(), SMALL_EVENNESS)
    return float(1 - shape * torch.maximum(differs, is_double))


def _thickness(fits: Fits) -> Tensor:
    """Return the distance of two sheets that would explain the heights, ``[M]``."""
    return 2 * fits.residual[:, 0] * fits.evenness.sqrt()


def _ramp(value: Tensor, limits: tuple[float, float]) -> Tensor:
    """Return 1 below the first limit, 0 above the second, linear between."""
    low, high = limits
    return ((high - value) / (high - low)).clamp(0, 1)
