"""The bilateral filter of large images: window after window, as of the whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from permutogeo.functional import gaussian_filter
from permutogeo.image._arrays import positions

# Points that are filtered at once: what a lattice takes for each of them is about 250 bytes.
MOST_POINTS = 2**22
# How far values, and the vertices that they pass through, lie apart at most, in bandwidths: one
# for the simplex of the input, two for the blur, one for the simplex of the output.
REACH = 4.0


@dataclass(frozen=True)
class Window:
    """Rows and columns to compute, and those around them that have a part in it."""

    inner: tuple[slice, slice]
    outer: tuple[slice, slice]

    @property
    def kept(self) -> tuple[slice, slice]:
        """The inner part, counted in the outer one."""
        rows, columns = (
            slice(inner.start - outer.start, inner.stop - outer.start)
            for inner, outer in zip(self.inner, self.outer, strict=True)
        )
        return rows, columns


def windows(height: int, width: int, sigma_pos: float, factor: int, most: int) -> Iterator[Window]:
    """Windows whose inner parts make up the image; they begin at multiples of ``factor``.

    Filtering the outer parts gives the inner ones what filtering the whole gives them. They have
    at most ``most`` pixels, unless the filter itself reaches further: then three times its reach
    along each side.
    """
    if height * width <= most:
        whole = (slice(0, height), slice(0, width))
        yield Window(whole, whole)
        return
    halo = min(int(REACH * sigma_pos) + 1, max(height, width))
    side = max(int(most**0.5) - 2 * halo, halo)
    side = -(-side // factor) * factor
    for top in range(0, height, side):
        for left in range(0, width, side):
            inner = slice(top, min(top + side, height)), slice(left, min(left + side, width))
            outer = (
                _around(inner[0], halo, factor, height),
                _around(inner[1], halo, factor, width),
            )
            yield Window(inner, outer)


def _around(part: slice, halo: int, factor: int, size: int) -> slice:
    first, last = max(part.start - halo, 0), min(part.stop + halo, size)
    return slice(first // factor * factor, min(-(-last // factor) * factor, size))


def features(guide: Tensor, part: tuple[slice, slice], sigmas: tuple[float, float]) -> Tensor:
    """Position and guide of the pixels of a part, divided by their bandwidths, ``[h, w, 2 + G]``.

    Positions are those in the whole image, so that all parts lie on one lattice.
    """
    colors = guide[part]
    corner = colors.new_tensor([part[1].start, part[0].start])
    height, width, _ = colors.shape
    pos = positions(height, width, colors) + corner
    return torch.cat([pos / sigmas[0], colors / sigmas[1]], -1)


def filter_sums(
    values: Tensor,
    guide: Tensor,
    sigmas: tuple[float, float],
    factor: int = 1,
    coarse: Tensor | None = None,
) -> Tensor:
    """The Gaussian sums of values, and of ones, at each pixel of the guide of one image.

    Args:
        values: A value for each block of ``factor`` x ``factor`` pixels, ``[h, w, C]``.
        guide: ``[H, W, G]``.
        sigmas: Bandwidths of position and guide.
        coarse: Features of the values where they are not those of the pixels, ``[h, w, 2 + G]``.

    Returns:
        The sums ``[H, W, C + 1]``; where the last is 0, no value reaches.
    """
    with_ones = torch.cat([values, torch.ones_like(values[..., :1])], -1)
    height, width = guide.shape[:2]
    out = with_ones.new_empty(height, width, with_ones.shape[-1])
    for window in windows(height, width, sigmas[0], factor, MOST_POINTS):
        rows, columns = (
            slice(side.start // factor, -(-side.stop // factor)) for side in window.outer
        )
        fine = features(guide, window.outer, sigmas)
        x = with_ones[rows, columns].flatten(0, 1)
        points = fine.flatten(0, 1)
        where = points if coarse is None else (coarse[rows, columns].flatten(0, 1), points)
        try:
            sums = gaussian_filter(x, where, normalize=None)
        except ValueError as error:
            raise too_small(guide, sigmas) from error
        out[window.inner] = sums.view(*fine.shape[:2], out.shape[-1])[window.kept]
    return out


def too_small(guide: Tensor, sigmas: tuple[float, float]) -> ValueError:
    """The error of bandwidths that the lattice cannot count in."""
    return ValueError(
        f"Expected 'sigma_pos' and 'sigma_color' large enough for {guide.shape[0]} x "
        f"{guide.shape[1]} pixels with colors from {guide.min().item():g} to "
        f"{guide.max().item():g} (got {sigmas[0]:g} and {sigmas[1]:g})"
    )
