"""Filters as functions: the lattice Gaussian, the exact Gaussian, and a comparison of the two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from permutogeo.checks import check_matrix, check_normalization, check_points
from permutogeo.lattice import Incidence, Lattice
from permutogeo.lattice.normalization import (
    append_ones,
    divide_by_mass,
    factors,
    normalized,
    normalized_after,
    normalizers,
)
from permutogeo.lattice.points import Pair, resolve_lattice
from permutogeo.lattice.precision import working_dtype
from permutogeo.ops.build import grid_extent

# Variance of the taps [1/2, 1, 1/2].
GAUSSIAN_VARIANCE = 0.5
# Doublings of the bandwidths in `fill_unreached`; keys of 32 bits collapse to one simplex earlier.
_MAX_DOUBLINGS = 64
_COMPILED_DOUBLINGS = 4


def gaussian_filter(
    x: Tensor,
    feature: Tensor | Pair | None,
    batch: Tensor | Pair | None = None,
    normalize: str | None = "after",
    lattice: Lattice | tuple[Lattice, Incidence] | None = None,
) -> Tensor:
    r"""Gaussian filter over features on a permutohedral lattice, linear in :math:`N`. The
    functional form of :class:`permutogeo.nn.GaussianFilter`.

    With :math:`K` the lattice's Gaussian of standard deviation 1 and :math:`n = K 1`, it computes
    :math:`K x` (``None``), :math:`(K x) / n` (``"after"``), :math:`K (x / n)` (``"before"``) or
    :math:`n^{-1/2} K n^{-1/2} x` (``"symmetric"``). Differentiable in both ``x`` and ``feature``.

    Args:
        x: Values at the input points.
        feature: Coordinates of the points, divided by the standard deviations; a pair for input
            and output points; ``None`` if ``lattice`` is given.
        batch: Graph of each point; graphs do not mix.
        normalize: ``None``, ``"before"``, ``"after"`` or ``"symmetric"``.
        lattice: ``Lattice.build(feature, batch)``, or for a pair of features the result of
            ``Lattice.build_bipartite``, to be shared by several filters. It caches :math:`n`.

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
    check_normalization(None, normalize)
    once = lattice is None
    lattice, at = resolve_lattice(feature, batch, lattice)
    check_matrix(None, "x", x, device=lattice.device, rows=lattice.num_points)
    return _lattice_gaussian(lattice, at, x, normalize, once)


def brute_force_filter(
    x: Tensor,
    feature: Tensor,
    batch: Tensor | None = None,
    normalize: str | None = "after",
    rows: Tensor | None = None,
) -> Tensor:
    r"""Exact Gaussian filter, :math:`\sum_j e^{-|f_i - f_j|^2 / 2} x_j`, in :math:`O(N^2)`.

    A reference for :func:`gaussian_filter`, with the same arguments.

    Args:
        rows: Indices of the points to compute; all by default.
    """
    check_normalization(None, normalize)
    feature = check_points("feature", feature, "batch", batch)
    grid_extent(feature, batch, GAUSSIAN_VARIANCE)
    check_matrix(None, "x", x, device=feature.device, rows=len(feature))
    dtype, x = x.dtype, x.to(working_dtype(x))
    rows = torch.arange(len(x), device=x.device) if rows is None else rows
    return _exact(x, feature, batch, normalize, rows).to(dtype)


def _exact(
    x: Tensor, feature: Tensor, batch: Tensor | None, normalize: str | None, rows: Tensor
) -> Tensor:
    """Return rows of the normalized exact filter."""

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
    """Accuracy of the lattice filter against the exact one.

    Args:
        psnr: Peak signal-to-noise ratio in dB; the peak is the range of ``x``.
        max_error: Largest absolute difference.
        num_checked: Number of points compared.
        num_points: Number of points filtered.
        num_vertices: Number of lattice vertices.
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
        samples: Number of random points to compare; each costs a pass over all points.

    Example:

        >>> print(approximation_report(torch.ones(100, 1), torch.rand(100, 2)).num_checked)
        100
    """
    lattice = Lattice.build(feature, batch)
    check_matrix(None, "x", x, device=lattice.device, rows=lattice.num_points)
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
    """Splat, blur and slice, in float32 at least: sums in half precision would overflow.

    Args:
        once: The lattice is used once, so that the normalizer need not be cached.
    """
    wide = x.to(working_dtype(x))

    def kernel(y: Tensor) -> Tensor:
        return lattice.slice(lattice.blur(lattice.splat(y)), at)

    if normalize == "after" and (once or not lattice.caches_constants):
        return normalized_after(kernel, wide).to(x.dtype)
    norms = normalizers(normalize, lattice, at, wide.dtype, "blur", lattice.blur)
    return normalized(kernel, wide, norms).to(x.dtype)


def _gaussian_sum(
    x: Tensor, feature: Tensor, batch: Tensor | None, rows: Tensor | None = None
) -> Tensor:
    """Return rows of the exact kernel matrix times ``x``, in chunks."""
    rows = torch.arange(len(feature), device=feature.device) if rows is None else rows
    chunk = max(1, 2**22 // max(1, len(feature)))
    parts = []
    for part in rows.split(chunk):
        # The expanded square would lose small distances to rounding.
        weight = torch.cdist(feature[part], feature, compute_mode="donot_use_mm_for_euclid_dist")
        weight = torch.exp(-0.5 * weight.square()).to(x.dtype)
        if batch is not None:
            weight = weight * (batch[part, None] == batch[None, :])
        parts.append(weight @ x)
    return torch.cat(parts) if parts else x.new_empty(0, x.shape[1])


def upsampling_factor(coarse: Sequence[int], fine: Sequence[int]) -> int:
    """Return the integer factor between two grid sizes (rows, columns).

    A coarse cell covers a block of ``factor`` x ``factor`` fine ones; the last may be cut off.
    """
    if min(*coarse, *fine) < 1:
        raise ValueError(
            f"Expected a guide and values of at least 1 x 1 (got {fine[0]} x {fine[1]} over "
            f"{coarse[0]} x {coarse[1]})"
        )
    factor = max(-(-whole // part) for part, whole in zip(coarse, fine, strict=True))
    if any(-(-whole // factor) != part for part, whole in zip(coarse, fine, strict=True)):
        fitting = " x ".join(str(-(-whole // factor)) for whole in fine)
        raise ValueError(
            "Expected a guide that is larger by one whole factor along both sides "
            f"(got {fine[0]} x {fine[1]} over {coarse[0]} x {coarse[1]}; "
            f"a factor of {factor} would need {fitting})"
        )
    return factor


def block_means(fine: Tensor, factor: int) -> Tensor:
    """Return the mean over each block of a grid.

    Shapes:
        - fine: :math:`(B, H, W, C)`
        - output: :math:`(B, \\lceil H / f \\rceil, \\lceil W / f \\rceil, C)`
    """
    if factor == 1:
        return fine
    mean = torch.nn.functional.avg_pool2d(fine.movedim(-1, 1), factor, ceil_mode=True)
    return mean.movedim(1, -1)


def fill_unreached(
    out: Tensor, reached: Tensor, x: Tensor, feature: Pair, batch: Pair | None = None
) -> Tensor:
    """Fill output points that no input point reaches, by Gaussian filters of larger bandwidth.

    Bandwidths are doubled until every point is reached. Compiled and exported programs, which
    cannot loop on data, double them four times; points that are still not reached keep ``out``.

    Args:
        out: Values at the output points, ``[N', C]``.
        reached: Which of them are defined, ``[N']``.
        x: Values at the input points, ``[N, C]``; at least one point for each graph.
        feature: Features of the input and output points, divided by the bandwidths.
        batch: Graphs of the input and output points.
    """
    compiling = torch.compiler.is_compiling()
    with_ones = append_ones(x)
    scale = 1.0
    for _ in range(_COMPILED_DOUBLINGS if compiling else _MAX_DOUBLINGS):
        missing = (~reached).nonzero()[:, 0]
        if not compiling and len(missing) == 0:
            break
        scale /= 2
        features = (feature[0] * scale, feature[1][missing] * scale)
        graphs = None if batch is None else (batch[0], batch[1][missing])
        sums = gaussian_filter(with_ones, features, graphs, normalize=None)
        found = sums[:, -1] > 0
        filled = torch.where(found[:, None], divide_by_mass(sums).to(out.dtype), out[missing])
        out = out.index_put((missing,), filled)
        reached = reached.index_put((missing,), found)
    return out
