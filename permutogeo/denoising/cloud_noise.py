"""Spacing, noise level and outliers of a point cloud, estimated from its positions."""

from __future__ import annotations

import math

import torch
from scipy.spatial import cKDTree
from torch import Tensor

from permutogeo.denoising.local_fits import fit_quadrics, nearest

# Neighborhood sizes of the noise estimate.
SIZES = (14, 28, 56, 112, 224, 448, 896)
# A neighborhood shows the noise if its radius is this many standard deviations.
SPAN = 3.2
# Evenness of the heights in a neighborhood (see `Fits`) that holds two sheets.
TWO_SHEETS = 0.85
# Largest median neighborhood at which thin parts and noise are told apart by the nearest points.
THIN_SIZE = 56
# Number of points that the noise is estimated at.
NUM_PROBES = 1500
# Neighbors whose distances tell outliers.
NUM_NEAR = 8
# Neighbors that the distances of an outlier are compared with.
NUM_NEARBY = 48
# Ratio of distances of an outlier.
FAR = 3.5
# The same for the distance to the second neighbor: closer points are of a thread.
APART = 2.0
# Thickness of a neighborhood relative to its width, and height of a point over it relative to the
# distance of its neighbors, above which it is not a part of a surface.
THICK, HIGH = 0.35, 0.5
ROUNDS = 20


def spread_order(pos: Tensor) -> Tensor:
    """Return the points ordered by their distance from the mean.

    Every n-th of them is a sample of the cloud that depends neither on the order of the points nor
    on a rotation.
    """
    return (pos - pos.mean(dim=0)).norm(dim=1).argsort(stable=True)


def every(pos: Tensor, count: int) -> Tensor:
    """Return the indices of about ``count`` points, spread over the cloud."""
    step = max(1, len(pos) // count)
    return spread_order(pos)[step // 2 :: step]


def estimate_noise(pos: Tensor, tree: cKDTree) -> tuple[float, float]:
    """Return the standard deviation of the noise along normals, and the point spacing.

    At each probe the smallest neighborhood counts that is wide compared to the deviations from
    its quadric: smaller ones lie within the noise, larger ones contain more of the shape.

    The spacing is the side of the square of surface that a point has to itself.
    """
    probe = every(pos, NUM_PROBES)
    most = min(len(pos), SIZES[-1])
    found = torch.zeros(len(probe), dtype=pos.dtype)
    spacing = torch.zeros_like(found)
    waiting = torch.arange(len(probe))
    chosen = torch.zeros(len(probe))
    for size in SIZES:
        if size > most and size != SIZES[0]:
            break
        index, distance = nearest(tree, pos[probe[waiting]], size)
        fits = fit_quadrics(pos, index, probe[waiting], 0.0)
        deviation, radius = fits.residual[:, 0], distance[:, -1]
        # Two sheets are no noise around one: the deviation from the nearer one counts.
        within = deviation * (1 - fits.evenness).clamp(min=0).sqrt()
        deviation = torch.where(fits.evenness > TWO_SHEETS, within, deviation)
        found[waiting], chosen[waiting] = deviation, float(size)
        spacing[waiting] = radius * math.sqrt(math.pi / index.size(1))
        waiting = waiting[radius < SPAN * deviation]
        if len(waiting) == 0:
            break
    noise = float(found.median())
    thin = _thin_noise(pos, tree, probe)
    # Up to here thin parts look like noise: the nearest points lie on one of their sides.
    if thin < 0.35 * noise and float(chosen.median()) <= THIN_SIZE:
        noise = thin
    return noise, float(spacing.median())


def _thin_noise(pos: Tensor, tree: cKDTree, probe: Tensor) -> float:
    """Return the standard deviation of the nearest points around planes through them."""
    index, _ = nearest(tree, pos[probe], 7)
    around = pos[index].double()
    around = around - around.mean(dim=1, keepdim=True)
    least = torch.linalg.eigvalsh(around.transpose(1, 2) @ around)[:, 0].clamp(min=0)
    # Three of seven degrees of freedom are those of the plane; 0.55 is the third decile of the
    # chi-squared distribution of the other four, divided by four.
    return float((least / 4).quantile(0.3).div(0.55).sqrt())


def find_outliers(pos: Tensor) -> Tensor:
    """Return which points are far from the surface, ``[N]`` bool.

    The distance of an outlier to its eighth neighbor is many times that of the densest points
    nearby, and it lies on no plane with its neighbors, as the points of a coarse part of a surface
    do. Nor does it have two close neighbors, as the points of a thread do. Removing outliers brings
    the surface closer to those farther away, hence the rounds.
    """
    found = torch.zeros(len(pos), dtype=torch.bool, device=pos.device)
    for _ in range(ROUNDS):
        left = torch.nonzero(~found).squeeze(1)
        part = pos[left]
        if len(part) <= 2 * NUM_NEARBY:  # too few to tell what is usual nearby
            break
        tree = cKDTree(part.cpu().numpy())
        distance = nearest(tree, part, NUM_NEAR + 1)[1]
        reach = distance[:, -1]
        usual = reach.median()
        doubt = torch.nonzero(reach > 0.5 * FAR * usual).squeeze(1)  # bounds the work
        if len(doubt) == 0:
            break
        index, _ = nearest(tree, part[doubt], NUM_NEARBY)
        densest = reach[index].quantile(0.1, dim=1)
        is_alone = distance[doubt, 2] > APART * densest
        doubt = doubt[(reach[doubt] > FAR * densest) & is_alone]
        if len(doubt) == 0:
            break
        index, _ = nearest(tree, part[doubt], 2 * NUM_NEAR + 1)
        out = doubt[_off_plane(part[index[:, 1:]] - part[doubt].unsqueeze(1), reach[doubt])]
        if len(out) == 0:
            break
        found[left[out]] = True
    return found


def _off_plane(around: Tensor, reach: Tensor) -> Tensor:
    """Return which points, at the origin, lie on no plane with their neighbors ``[M, k, 3]``."""
    mean = around.mean(dim=1, keepdim=True)
    spread = (around - mean).double()
    value, vector = torch.linalg.eigh(spread.transpose(1, 2) @ spread)
    thickness = (value[:, 0].clamp(min=0) / value[:, 1].clamp(min=1e-300)).sqrt()
    height = (mean[:, 0].double() * vector[:, :, 0]).sum(dim=1).abs()
    return (thickness > THICK) | (height > HIGH * reach)
