"""Filtering of large images in windows with halos."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from permutogeo.functional import GAUSSIAN_VARIANCE, gaussian_filter
from permutogeo.image.arrays import pixel_positions
from permutogeo.lattice.normalization import append_ones
from permutogeo.ops.build import grid_extent

# Pixels of a window: a lattice takes about 250 bytes for each.
MAX_WINDOW_PIXELS = 2**22
# Support of the filter in bandwidths: one for the simplex of the input point, two for the blur, one
# for the simplex of the output point.
REACH = 4.0


@dataclass(frozen=True)
class Window:
    """Rows and columns of the output, and the same with the halo that the filter reads."""

    inner: tuple[slice, slice]
    outer: tuple[slice, slice]

    @property
    def kept(self) -> tuple[slice, slice]:
        """The inner part, relative to the outer part."""
        rows, columns = (
            slice(inner.start - outer.start, inner.stop - outer.start)
            for inner, outer in zip(self.inner, self.outer, strict=True)
        )
        return rows, columns


def windows(height: int, width: int, sigma_pos: float, factor: int, most: int) -> Iterator[Window]:
    """Yield windows whose inner parts tile the image and start at multiples of ``factor``.

    Filtering the outer part of a window gives the inner part the result of filtering the whole
    image. Outer parts have at most ``most`` pixels, unless the support of the filter is larger;
    their sides are then three times its reach.
    """
    if height * width <= most:
        whole = (slice(0, height), slice(0, width))
        yield Window(whole, whole)
        return
    halo = int(min(REACH * sigma_pos + 1, max(height, width)))
    side = max(int(most**0.5) - 2 * halo, halo)
    side = -(-side // factor) * factor
    for top in range(0, height, side):
        for left in range(0, width, side):
            inner = slice(top, min(top + side, height)), slice(left, min(left + side, width))
            outer = (
                _extend(inner[0], halo, factor, height),
                _extend(inner[1], halo, factor, width),
            )
            yield Window(inner, outer)


def _extend(part: slice, halo: int, factor: int, size: int) -> slice:
    first, last = max(part.start - halo, 0), min(part.stop + halo, size)
    return slice(first // factor * factor, min(-(-last // factor) * factor, size))


def pixel_features(guide: Tensor, part: tuple[slice, slice], sigmas: tuple[float, float]) -> Tensor:
    """Return position and color of a part, divided by their bandwidths, ``[h, w, 2 + G]``.

    Positions are relative to the whole image, so that all windows share one lattice.
    """
    colors = guide[part]
    corner = colors.new_tensor([part[1].start, part[0].start])
    height, width, _ = colors.shape
    pos = pixel_positions(height, width, colors) + corner
    return torch.cat([pos / sigmas[0], colors / sigmas[1]], -1)


def filter_sums(
    values: Tensor,
    guide: Tensor,
    sigmas: tuple[float, float],
    factor: int = 1,
    coarse: Tensor | None = None,
) -> Tensor:
    """Filter one image and a channel of ones by the unnormalized Gaussian.

    Args:
        values: A value for each block of ``factor`` x ``factor`` pixels, ``[h, w, C]``.
        guide: The guide, ``[H, W, G]``.
        sigmas: Bandwidths of positions and colors.
        coarse: Features of the values, ``[h, w, 2 + G]``; by default those of the pixels.

    Returns:
        The sums at each pixel of the guide, ``[H, W, C + 1]``; the last channel is the mass, which
        is 0 where no value reaches.
    """
    with_ones = append_ones(values)
    height, width = guide.shape[:2]
    out = with_ones.new_empty(height, width, with_ones.shape[-1])
    for window in windows(height, width, sigmas[0], factor, MAX_WINDOW_PIXELS):
        rows, columns = (
            slice(side.start // factor, -(-side.stop // factor)) for side in window.outer
        )
        fine = pixel_features(guide, window.outer, sigmas)
        x = with_ones[rows, columns].flatten(0, 1)
        points = fine.flatten(0, 1)
        where = points if coarse is None else (coarse[rows, columns].flatten(0, 1), points)
        try:
            sums = gaussian_filter(x, where, normalize=None)
        except ValueError as error:
            if _fits_lattice(points):
                raise
            raise ValueError(_too_small(guide, sigmas)) from error
        out[window.inner] = sums.view(*fine.shape[:2], out.shape[-1])[window.kept]
    return out


def _fits_lattice(points: Tensor) -> bool:
    """Whether the lattice can represent these points."""
    try:
        grid_extent(points, None, GAUSSIAN_VARIANCE)
    except ValueError:
        return False
    return True


def _too_small(guide: Tensor, sigmas: tuple[float, float]) -> str:
    return (
        f"Expected 'sigma_pos' and 'sigma_color' large enough for {guide.shape[0]} x "
        f"{guide.shape[1]} pixels with colors from {guide.min().item():g} to "
        f"{guide.max().item():g} (got {sigmas[0]:g} and {sigmas[1]:g})"
    )
