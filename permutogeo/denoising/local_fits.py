"""Weighted planes and quadrics fitted to the neighborhoods of points.

Nothing here depends on the sign of a normal: fits move points to the surface, along whichever
normal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

# Neighbor pairs of a chunk, which bounds the memory.
PAIRS = 1 << 18
# Ridge of the normal equations, relative to the sum of weights: keeps lines and planes solvable.
RIDGE = 1e-5
# Reach of the robust weights, in standard deviations of the residual.
REACH = 1.5
# Bandwidth of the weights by normals: squared sine of 25 degrees.
AGREEMENT = 0.18
# Fits around the nearest centers that are blended at a point, if not all points are centers.
BLEND = 4
# Points of a chunk that are projected at once, which bounds the memory.
ROWS = 1 << 15


def neighbor_tree(pos: Tensor) -> cKDTree:
    """Return a search tree over the points, on the CPU."""
    return cKDTree(pos.detach().cpu().numpy())


def nearest(tree: cKDTree, pos: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return indices and distances ``[M, count]`` of the nearest points of the tree."""
    count = min(count, tree.n)
    distance, index = tree.query(
        pos.detach().cpu().numpy(), np.arange(1, count + 1), workers=torch.get_num_threads()
    )
    return torch.from_numpy(index).to(pos.device), torch.from_numpy(distance).to(pos)


@dataclass
class Fits:
    """Planes and quadrics around centers.

    Args:
        origin: Weighted mean of each neighborhood, ``[M, 3]``.
        frame: Two tangents and the normal as columns, ``[M, 3, 3]``.
        radius: Distance of the farthest neighbor, ``[M]``.
        quadric: Coefficients of 1, u, v, u^2, uv, v^2 in units of the radius, ``[M, K, 6]``: least
            squares, robust, and if normals are known robust among agreeing normals.
        residual: Standard deviation of the heights around each quadric, ``[M, K]``.
        shape: Invariants of the neighborhood, ``[M, 4]``: two ratios of extents, the offset of the
            mean in the tangent plane and along the normal, relative to the radius.
        evenness: Squared mean of the absolute heights around the least squares quadric over the
            mean of their squares, ``[M]``: 0.64 for Gaussian noise, 0.75 if they are spread evenly,
            1 for two parallel sheets.
    """

    origin: Tensor
    frame: Tensor
    radius: Tensor
    quadric: Tensor
    residual: Tensor
    shape: Tensor
    evenness: Tensor


def fit_quadrics(
    pos: Tensor, index: Tensor, center: Tensor, sigma: float, normal: Tensor | None = None
) -> Fits:
    """Fit planes and quadrics to the neighborhoods ``index [M, k]`` of centers ``[M]``.

    Args:
        pos: Positions ``[N, 3]``.
        sigma: Standard deviation of the noise: lower bound of the scale of the robust weights.
        normal: Unoriented normals ``[N, 3]``.
    """
    rows = max(1, PAIRS // index.size(1))
    parts = [
        _fit_chunk(pos, part, own, sigma, normal)
        for part, own in zip(index.split(rows), center.split(rows), strict=True)
    ]
    columns = zip(*parts, strict=True)
    return Fits(*(torch.cat(column) for column in columns))


def _fit_chunk(
    pos: Tensor, index: Tensor, center: Tensor, sigma: float, normal: Tensor | None
) -> tuple[Tensor, ...]:
    own = pos[center]
    around = pos[index] - own.unsqueeze(1)
    square = around.square().sum(dim=2)
    radius = square.amax(dim=1).sqrt().clamp(min=1e-12)
    weight = (1 - square / (1.0001 * radius.square()).unsqueeze(1)).square()
    mean, frame, extent = _planes(around, weight)
    local = (around - mean.unsqueeze(1)) @ frame
    local = local / radius.view(-1, 1, 1)
    # Weights by distance in the tangent plane: those by distance in space would favor the side
    # of the surface that the center is on.
    offset = (mean.unsqueeze(1) @ frame).squeeze(1) / radius.unsqueeze(1)
    across = (local + offset.unsqueeze(1))[:, :, :2].square().sum(dim=2)
    weight = (1 - across).clamp(min=0).square() + 1e-6
    basis = monomials(local[:, :, 0], local[:, :, 1])
    height = local[:, :, 2]
    floor = sigma / radius
    quadric, error, residual = _solve(basis, height, weight)
    found = [(quadric, residual)]
    evenness = evenness_of(error, weight)
    robust = weight
    for _ in range(2):
        scale = REACH * torch.maximum(residual, floor).clamp(min=1e-9)
        robust = weight * torch.exp(-0.5 * (error / scale.unsqueeze(1)).square())
        quadric, error, residual = _solve(basis, height, robust)
    found.append((quadric, residual))
    if normal is not None:
        cosine = (normal[index] @ normal[center].unsqueeze(2)).squeeze(2)
        agreeing = robust * torch.exp((cosine.square() - 1) / AGREEMENT)
        quadric, error, residual = _solve(basis, height, agreeing)
        found.append((quadric, residual))
    shape = torch.stack(
        [
            extent[:, 0] / extent[:, 1].clamp(min=1e-12),
            extent[:, 1] / extent[:, 2].clamp(min=1e-12),
            offset[:, :2].norm(dim=1),
            offset[:, 2].abs(),
        ],
        1,
    )
    quadrics = torch.stack([item[0] for item in found], 1)
    residuals = torch.stack([item[1] for item in found], 1) * radius.unsqueeze(1)
    return own + mean, frame, radius, quadrics, residuals, shape, evenness


def evenness_of(error: Tensor, weight: Tensor) -> Tensor:
    """Return the evenness (see `Fits`) of errors ``[M, k]`` around 0, ``[M]``."""
    total = weight.sum(dim=1)
    mean = (weight * error.abs()).sum(dim=1) / total
    return mean.square() * total / (weight * error.square()).sum(dim=1).clamp(min=1e-30)


def _planes(around: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return weighted mean, principal frame (normal last) and extents (smallest first)."""
    total = weight.sum(dim=1).clamp(min=1e-12)
    mean = (weight.unsqueeze(1) @ around).squeeze(1) / total.unsqueeze(1)
    spread = around - mean.unsqueeze(1)
    covariance = (spread * weight.unsqueeze(2)).transpose(1, 2) @ spread
    value, vector = torch.linalg.eigh(covariance.double() / total.view(-1, 1, 1))
    frame = vector.flip(2).to(around)
    return mean, frame, value.clamp(min=0).sqrt().to(around)


def monomials(u: Tensor, v: Tensor) -> Tensor:
    """Return 1, u, v, u^2, uv, v^2 along a new last dimension."""
    return torch.stack([torch.ones_like(u), u, v, u * u, u * v, v * v], -1)


def _solve(basis: Tensor, height: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return coefficients ``[M, 6]``, errors ``[M, k]`` and their standard deviation ``[M]``."""
    weighted = (basis * weight.unsqueeze(2)).transpose(1, 2)
    matrix = (weighted @ basis).double()
    right = (weighted @ height.unsqueeze(2)).double()
    total = weight.sum(dim=1).double()
    ridge = torch.eye(6, dtype=torch.float64, device=basis.device) * (RIDGE * total).view(-1, 1, 1)
    factor = torch.linalg.cholesky_ex(matrix + ridge).L
    solution = torch.cholesky_solve(right, factor).to(basis)
    error = height - (basis @ solution).squeeze(2)
    # The expected sum of weighted squares, which falls short of the sum of weights by the trace.
    spent = torch.cholesky_solve(weighted.double() @ weighted.double().transpose(1, 2), factor)
    free = 1 - spent.diagonal(dim1=1, dim2=2).sum(dim=1) / total
    free = free.clamp(min=0.1).to(basis)
    variance = (weight * error.square()).sum(dim=1) / (total.to(basis) * free)
    return solution.squeeze(2), error, variance.sqrt()


def project_points(fits: Fits, pos: Tensor, owner: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """Return displacements of points to the surfaces of fits, and the normals there.

    Args:
        fits: Fits around M centers.
        pos: Positions ``[N, 3]``.
        owner: Centers that are blended at each point, ``[N, m]``.
        share: Their weights, ``[N, m]``, which sum to 1.

    Returns:
        Displacements ``[N, 1 + K, 3]``, to the plane and to each quadric, and unoriented normals
        ``[N, 3]`` of the robust quadric.
    """
    parts = zip(pos.split(ROWS), owner.split(ROWS), share.split(ROWS), strict=True)
    moved, normal = zip(*(_project_chunk(fits, *part) for part in parts), strict=True)
    return torch.cat(moved), torch.cat(normal)


def _project_chunk(fits: Fits, pos: Tensor, owner: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    frame = fits.frame[owner]
    radius = fits.radius[owner].unsqueeze(2)
    local = ((pos.unsqueeze(1) - fits.origin[owner]).unsqueeze(2) @ frame).squeeze(2) / radius
    u, v, height = local.unbind(2)
    quadric = fits.quadric[owner]
    value = (quadric @ monomials(u, v).unsqueeze(3)).squeeze(3) - height.unsqueeze(2)
    slope_u = (
        quadric[..., 1] + 2 * quadric[..., 3] * u.unsqueeze(2) + quadric[..., 4] * v[..., None]
    )
    slope_v = (
        quadric[..., 2] + 2 * quadric[..., 5] * v.unsqueeze(2) + quadric[..., 4] * u[..., None]
    )
    direction = torch.stack([-slope_u, -slope_v, torch.ones_like(slope_u)], 3)
    length = direction.square().sum(dim=3, keepdim=True)
    step = direction * (value.unsqueeze(3) / length)
    plane = torch.zeros_like(step[:, :, :1])
    plane[..., 2] = -height.unsqueeze(2)
    step = torch.cat([plane, step], 2) * radius.unsqueeze(3)
    moved = (step @ frame.transpose(2, 3)) * share.view(*share.shape, 1, 1)
    normal = ((direction[:, :, 1] / length[:, :, 1].sqrt()).unsqueeze(2) @ frame.transpose(2, 3))[
        :, :, 0
    ]
    # The sign of the nearest center's normal holds for the blend.
    sign = torch.where((normal * normal[:, :1]).sum(dim=2, keepdim=True) < 0, -1.0, 1.0)
    mean = (normal * sign * share.unsqueeze(2)).sum(dim=1)
    return moved.sum(dim=1), torch.nn.functional.normalize(mean, dim=1)
