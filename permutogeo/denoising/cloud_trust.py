"""Parts of a point cloud that are too coarse or too thin to tell noise from shape."""

from __future__ import annotations

import torch
from scipy.spatial import cKDTree
from torch import Tensor

from permutogeo.denoising.cloud_noise import NUM_PROBES, every
from permutogeo.denoising.local_fits import Fits, fit_quadrics, nearest

# Sizes of neighborhoods: deviations from quadrics are compared between the first two, and the
# others show two sheets.
SMALL, TWICE, WIDE, WIDEST = 14, 28, 56, 112
# Growth of the deviation from SMALL to TWICE neighbors: noise alone at the first value, shape at
# the second.
GROWTH = (1.06, 1.26)
# Of coarse clouds, noise below the first number of spacings is left alone, above the second it is
# removed.
COARSE_NOISE = (0.13, 0.26)
# Lower quartile of the deviations from quadrics of SMALL points, over the standard deviation of the
# noise; a tenth more is allowed.
QUARTILE = 0.796 / 1.1
# Evenness of the heights (see `Fits`) of one sheet and of two, as a mean over nearby probes.
EVENNESS = (0.73, 0.77)
# Two sheets closer than this many spacings are not told apart by their nearest points.
THINNEST = 2.5
NUM_NEARBY = 16
# The same for the median of the whole cloud and the widest neighborhoods, which tells sheets of
# three standard deviations apart.
WHOLE_EVENNESS = 0.715


def displacement_trust(pos: Tensor, tree: cKDTree, sigma: float, spacing: float) -> Tensor:
    """Return the fraction of its displacement that each point is to move, ``[N]`` in [0, 1].

    In a coarse cloud the deviations from quadrics grow with the neighborhood: they are of the
    shape, not of noise. On two sheets that are closer than the points of one of them, heights are
    spread to both sides rather than around the middle.

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
    near = nearest(cKDTree(pos[probe].cpu().numpy()), pos, NUM_NEARBY)[0]
    is_thin = _thickness(wide)[near].median(dim=1).values < THINNEST * spacing
    one_sheet = torch.where(is_thin, _ramp(wide.evenness[near].mean(dim=1), EVENNESS), 1.0)
    return _fine_trust(small, twice, sigma, spacing) * one_sheet.to(pos.dtype)


def _fine_trust(small: Fits, twice: Fits, sigma: float, spacing: float) -> float:
    """Return 1 for a fine cloud or much noise, 0 for a coarse cloud with little noise."""
    residual = small.residual[:, 0]
    growth = twice.residual[:, 0].median() / residual.median().clamp(min=1e-300)
    coarse = 1 - float(_ramp(growth, GROWTH))
    if coarse <= 0:
        return 1.0
    level = min(sigma, float(residual.quantile(0.25)) / QUARTILE) / spacing
    low, high = COARSE_NOISE
    return min(max((level / coarse - low) / (high - low), 0.0), 1.0)


def _thickness(fits: Fits) -> Tensor:
    """Return the distance of two sheets that would explain the heights, ``[M]``."""
    return 2 * fits.residual[:, 0] * fits.evenness.sqrt()


def _ramp(value: Tensor, limits: tuple[float, float]) -> Tensor:
    """Return 1 below the first limit, 0 above the second, linear between."""
    low, high = limits
    return ((high - value) / (high - low)).clamp(0, 1)
