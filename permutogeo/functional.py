"""Filters as functions of points: the lattice Gaussian, the exact one, and how far they differ."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from permutogeo._normalizer import (
    NORMALIZATIONS,
    factors,
    normalized,
    normalized_after,
    normalizers,
)
from permutogeo._points import Pair, lay_lattice
from permutogeo.checks import check_points, check_rows, working_dtype
from permutogeo.incidence import Incidence
from permutogeo.lattice import Lattice
from permutogeo.ops.build import check_points as check_values

# Variance of the taps [1/2, 1, 1/2].
GAUSSIAN_VARIANCE = 0.5


def gaussian_filter(
    x: Tensor,
    feature: Tensor | Pair | None,
    batch: Tensor | Pair | None = None,
    normalize: str | None = "after",
    lattice: Lattice | tuple[Lattice, Incidence] | None = None,
) -> Tensor:
    r"""Gaussian filter over features, on a permutohedral lattice in time linear in :math:`N`; the
    twin of :class:`permutogeo.nn.GaussianFilter`.

    With :math:`K` the lattice's Gaussian of standard deviation 1 and :math:`n = K 1`, it computes
    :math:`K x` (``None``), :math:`(K x) / n` (``"after"``), :math:`K (x / n)` (``"before"``) or
    :math:`n^{-1/2} K n^{-1/2} x` (``"symmetric"``). Differentiable in both ``x`` and ``feature``.

    Args:
        x: Values at the input points.
        feature: Coordinates of the points, divided by the standard deviations; a pair for input
            and output points; ``None`` if ``lattice`` is given.
        batch: Graph of each point; graphs do not mix.
        normalize: ``None``, ``"before"``, ``"after"`` or ``"symmetric"``.
        lattice: ``Lattice.build(feature, batch)``, or for a pair of features what
            ``Lattice.build_bipartite`` returns, so that several filters build it once. It keeps
            :math:`n`.

    Shapes:
        - x: :math:`(N, C)`
        - feature: :math:`(N, d)`, or :math:`((N, d), (N', d))` for other output points
        - batch: :math:`(N)`, or :math:`((N), (N'))` int64
        - output: :math:`(N, C)`, or :math:`(N', C)`

    Example:

        >>> feature = torch.rand(500, 2) * 5
        >>> smooth = gaussian_filter(torch.rand(500, 1), feature)
        >>> gaussian_filter(torch.rand(500, 1), (feature, feature[:9] + 0.1)).shape
        torch.Size([9, 1])
    """
    _check_normalization(normalize)
    once = lattice is None
    lattice, at = lay_lattice(feature, batch, lattice)
    check_rows("x", x, lattice.num_points, "points", lattice.code)
    return _lattice_gaussian(lattice, at, x, normalize, once)


def brute_force_filter(
    x: Tensor,
    feature: Tensor,
    batch: Tensor | None = None,
    normalize: str | None = "after",
    rows: Tensor | None = None,
) -> Tensor:
    r"""The exact Gaussian filter, :math:`\sum_j e^{-|f_i - f_j|^2 / 2} x_j`, in :math:`O(N^2)`.

    For checking :func:`gaussian_filter`, whose arguments it shares.

    Args:
        rows: Compute only these points' results.
    """
    _check_normalization(normalize)
    feature = check_points("feature", feature, "batch", batch)
    check_values(feature, batch, GAUSSIAN_VARIANCE)
    check_rows("x", x, feature.shape[0], "points", feature)
    dtype, x = x.dtype, x.to(working_dtype(x))
    rows = torch.arange(len(x), device=x.device) if rows is None else rows
    return _exact(x, feature, batch, normalize, rows).to(dtype)


def _exact(
    x: Tensor, feature: Tensor, batch: Tensor | None, normalize: str | None, rows: Tensor
) -> Tensor:
    """The rows of the exact filter, by normalization."""

    def kernel(y: Tensor) -> Tensor:
        return _gaussian_sum(y, feature, batch, rows)

    if normalize == "after":
        return normalized_after(kernel, x)
    if normalize is None:
        return kernel(x)
    response = _gaussian_sum(torch.ones_like(x[:, :1]), feature, batch)
    return normalized(kernel, x, factors(normalize, lambda: response, lambda: response[rows]))


@dataclass(frozen=True)
class ApproximationReport:
    """How close the lattice comes to the exact filter.

    Args:
        psnr: Peak signal-to-noise ratio in dB; the peak is the range of ``x``.
        max_error: Largest absolute difference.
        num_checked: Points compared.
        num_points: Points filtered.
        num_vertices: Vertices of the lattice.
    """

    psnr: float
    max_error: float
    num_checked: int
    num_points: int
    num_vertices: int

    def __str__(self) -> str:
        return (
            f"{self.psnr:.1f} dB against the exact filter, largest error {self.max_error:.3g} "
            f"({self.num_checked} of {self.num_points} points, {self.num_vertices} vertices)"
        )


def approximation_report(
    x: Tensor, feature: Tensor, batch: Tensor | None = None, samples: int = 4096, seed: int = 0
) -> ApproximationReport:
    """Compare :func:`gaussian_filter`, normalized after, with the exact filter.

    Args:
        samples: How many points, drawn at random, are compared: each costs a pass over all.

    Example:

        >>> print(approximation_report(torch.ones(100, 1), torch.rand(100, 2)).num_checked)
        100
    """
    lattice = Lattice.build(feature, batch)
    check_rows("x", x, lattice.num_points, "points", lattice.code)
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(x), generator=generator, device="cpu")[:samples].to(x.device)
    smooth = _lattice_gaussian(lattice, None, x, "after", once=True)
    error = (smooth[rows] - brute_force_filter(x, feature, batch, "after", rows)).double()
    peak = float(x.max() - x.min()) if x.numel() else 0.0
    mean_square = float(error.square().mean()) if error.numel() else 0.0
    psnr = 10 * math.log10(peak**2 / mean_square) if mean_square > 0 and peak > 0 else math.inf
    largest = float(error.abs().max()) if error.numel() else 0.0
    return ApproximationReport(psnr, largest, len(rows), len(x), lattice.num_vertices)


def _lattice_gaussian(
    lattice: Lattice, at: Incidence | None, x: Tensor, normalize: str | None, once: bool
) -> Tensor:
    """Splat, blur and slice, in single precision at least: sums of halves would overflow.

    Args:
        once: Whether the lattice is used this once, so that it need not keep the normalizer.
    """
    wide = x.to(working_dtype(x))

    def kernel(y: Tensor) -> Tensor:
        return lattice.slice(lattice.blur(lattice.splat(y)), at)

    if normalize == "after" and (once or not lattice._keeps):
        return normalized_after(kernel, wide).to(x.dtype)
    norms = normalizers(normalize, lattice, at, wide.dtype, "blur", lattice.blur)
    return normalized(kernel, wide, norms).to(x.dtype)


def _gaussian_sum(
    x: Tensor, feature: Tensor, batch: Tensor | None, rows: Tensor | None = None
) -> Tensor:
    """Rows of the exact kernel times ``x``, some at a time."""
    rows = torch.arange(len(feature), device=feature.device) if rows is None else rows
    chunk = max(1, 2**22 // max(1, len(feature)))
    parts = []
    for part in rows.split(chunk):
        # Not the expanded square, which loses small distances to rounding.
        weight = torch.cdist(feature[part], feature, compute_mode="donot_use_mm_for_euclid_dist")
        weight = torch.exp(-0.5 * weight.square()).to(x.dtype)
        if batch is not None:
            weight = weight * (batch[part, None] == batch[None, :])
        parts.append(weight @ x)
    return torch.cat(parts) if parts else x.new_empty(0, x.shape[1])


def _check_normalization(normalize: str | None) -> None:
    if normalize not in NORMALIZATIONS:
        raise ValueError(
            f"Expected 'normalize' to be None, 'before', 'after' or 'symmetric' (got {normalize!r})"
        )
