"""Upsampling along a guide: joint bilateral filter and bilateral solver."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from permutogeo.checks import check_integer
from permutogeo.functional import block_means, fill_unreached, upsampling_factor
from permutogeo.image.arrays import (
    Image,
    check_bandwidths,
    check_pixels,
    locate_bad_pixels,
    restore_layout,
    to_channels_last,
)
from permutogeo.image.propagation import bilateral_refine
from permutogeo.image.windows import filter_sums, pixel_features
from permutogeo.lattice.normalization import divide_by_mass

# Default bandwidths: of positions in small pixels, of colors of 255.
_COLOR_SIGMAS = (4.0, 6.0)
_RESIDUAL_SIGMAS = (0.4, 24.0)


def joint_bilateral_upsample(
    image: Image,
    guide: Image,
    sigma_pos: float | None = None,
    sigma_color: float | None = None,
    residual: bool | None = None,
) -> Image:
    r"""Upsample an image along the edges of a larger one, after `"Joint Bilateral Upsampling"
    <https://doi.org/10.1145/1276377.1276497>`_.

    .. math::
        \mathbf{x}^{\prime}_i = \frac{1}{n_i} \sum_j \exp \left( - \frac{|\mathbf{p}_i -
        \mathbf{p}_j|^2}{2 \sigma_p^2} - \frac{|\mathbf{g}_i - \mathbf{g}_j|^2}{2 \sigma_c^2}
        \right) \mathbf{x}_j

    where :math:`j` runs over the pixels of the small image, :math:`\mathbf{p}` are positions,
    :math:`\mathbf{g}` colors of the guide and :math:`n_i` is the sum of the weights. The position
    and color of a small pixel are the means over the block of :math:`f \times f` pixels of the
    guide that it covers: pixel :math:`j` lies at :math:`(j + 1/2) f - 1/2`. Output pixels that no
    small pixel reaches are filtered again with doubled bandwidths, until all are reached. For a
    learned filter see :class:`permutogeo.nn.JointBilateralUpsample`.

    A weighted mean flattens values that vary within surfaces, such as depth. With
    ``residual=True``, the output is the bilinear interpolation plus the filtered difference between
    the image and the block means of that interpolation. It follows slopes, and the guide sharpens
    the edges. The output stays in the range of the image.

    Large images are filtered in windows, with bounded memory.

    Args:
        image: The small image, with any number of channels: colors, depth, scores of labels.
        guide: The large image, with any number of channels, :math:`f` times as high and wide for an
            integer :math:`f`; the last blocks may be cut off.
        sigma_pos: Bandwidth of positions in pixels of the guide; by default :math:`4 f`, or
            :math:`0.4 f` with ``residual=True``.
        sigma_color: Bandwidth of colors in the units of the guide, 0 to 255 if it is uint8 and 0 to
            1 otherwise; by default 6 of 255, or 24 of 255 with ``residual=True``.
        residual: Filter the difference from the bilinear interpolation. By default, if the image
            has a single channel and no bandwidth is given.

    Shapes:
        - image: arrays :math:`(h, w)` or :math:`(h, w, C)`, tensors :math:`(C, h, w)` or
          :math:`(B, C, h, w)`
        - guide: arrays :math:`(H, W)` or :math:`(H, W, G)`, tensors :math:`(G, H, W)` or
          :math:`(B, G, H, W)`
        - output: like the image, with the height and width of the guide

    Example:

        >>> depth = np.random.default_rng(0).random((8, 12))
        >>> photo = np.zeros((32, 48, 3), np.uint8)
        >>> joint_bilateral_upsample(depth, photo).shape
        (32, 48)
        >>> joint_bilateral_upsample(depth, photo, sigma_pos=16, sigma_color=10).shape
        (32, 48)
    """
    values, colors, factor = _check(image, guide)
    if residual is None:
        residual = values.shape[3] == 1 and sigma_pos is None and sigma_color is None
    defaults = _RESIDUAL_SIGMAS if residual else _COLOR_SIGMAS
    scale = 1.0 if guide.dtype in (torch.uint8, np.uint8) else 1 / 255
    sigmas = check_bandwidths(
        defaults[0] * factor if sigma_pos is None else sigma_pos,
        defaults[1] * scale if sigma_color is None else sigma_color,
    )
    upsample = _upsample_residual if residual else _upsample
    with locate_bad_pixels(guide=colors):
        large = [upsample(x, y, sigmas, factor) for x, y in zip(values, colors, strict=True)]
    empty = values.new_empty(0, *colors.shape[1:3], values.shape[3])
    return restore_layout(torch.stack(large) if large else empty, image)


def bilateral_solver_upsample(
    image: Image,
    guide: Image,
    sigma_pos: float = 4.0,
    sigma_color: float | None = None,
    lam: float = 1.0,
    corrections: int = 2,
) -> Image:
    r"""Upsample an image along the edges of a larger one by the fast bilateral solver.

    The bicubic interpolation is refined along the guide by :func:`bilateral_refine`, which trusts
    it at the centers of the blocks of :math:`f \times f` pixels that a small pixel covers. The
    solver flattens slopes, so that block means of its result are not the small pixels any more.
    Each correction adds the difference, interpolated. For depth, prefer this to
    :func:`joint_bilateral_upsample`.

    Args:
        image: The small image, with any number of channels; each pixel the mean of its block.
        guide: The large image, :math:`f` times as high and wide for an integer :math:`f`; the last
            blocks may be cut off.
        sigma_pos: Bandwidth of positions in pixels of the guide.
        sigma_color: Bandwidth of the guide in its own units; by default 25.5 of 255.
        lam: Smoothness; see :class:`permutogeo.nn.BilateralSolver`.
        corrections: How often the error of the block means is added; 0 for the plain solution.

    Shapes:
        - image: arrays :math:`(h, w)` or :math:`(h, w, C)`, tensors :math:`(C, h, w)` or
          :math:`(B, C, h, w)`
        - guide: arrays :math:`(H, W)` or :math:`(H, W, G)`, tensors :math:`(G, H, W)` or
          :math:`(B, G, H, W)`
        - output: like the image, with the height and width of the guide

    Example:

        >>> depth = np.random.default_rng(0).random((8, 12))
        >>> photo = np.zeros((64, 96, 3), np.uint8)
        >>> bilateral_solver_upsample(depth, photo).shape
        (64, 96)
    """
    check_integer(None, "corrections", corrections, least=0)
    values, colors, factor = _check(image, guide)
    large = _interpolate(values, colors, factor)
    if len(values) and factor > 1:
        height, width = colors.shape[1:3]
        offset = torch.arange(factor, device=values.device) - (factor - 1) / 2
        near = torch.exp(-((4 * offset / factor) ** 2) / 2)
        bump = (near[:, None] * near).repeat(values.shape[1:3])[:height, :width]
        scale = 1.0 if guide.dtype in (torch.uint8, np.uint8) else 1 / 255
        sigma_color = 25.5 * scale if sigma_color is None else sigma_color
        refined = bilateral_refine(
            large.movedim(-1, 1), colors.movedim(-1, 1), bump.expand(len(values), -1, -1),
            sigma_pos, sigma_color, lam,
        )  # fmt: skip
        large = torch.as_tensor(refined).movedim(1, -1)
        for _ in range(corrections):
            large = large + _interpolate(values - block_means(large, factor), colors, factor)
    return restore_layout(large, image)


def _check(image: Image, guide: Image) -> tuple[Tensor, Tensor, int]:
    """Return an image and its guide as ``[B, H, W, C]``, and the factor between them."""
    values, colors = to_channels_last("image", image), to_channels_last("guide", guide)
    if len(values) != len(colors) or values.device != colors.device:
        raise ValueError(
            f"Expected a 'guide' for each of {len(values)} images, on {values.device} "
            f"(got {len(colors)} on {colors.device})"
        )
    factor = upsampling_factor(values.shape[1:3], colors.shape[1:3])
    check_pixels("image", values)
    return values, colors, factor


def _interpolate(values: Tensor, guide: Tensor, factor: int, mode: str = "bicubic") -> Tensor:
    """Interpolate images ``[B, h, w, C]`` to the size of their guides."""
    height, width = guide.shape[1:3]
    large = functional.interpolate(
        values.movedim(-1, 1), scale_factor=factor, mode=mode, align_corners=False
    )
    return large[:, :, :height, :width].movedim(1, -1)


def _upsample_residual(
    values: Tensor, guide: Tensor, sigmas: tuple[float, float], factor: int
) -> Tensor:
    """Upsample one image bilinearly, and add the upsampled residual of that."""
    base = _interpolate(values[None], guide[None], factor, "bilinear")[0]
    rest = values - block_means(base[None], factor)[0]
    out = base + _upsample(rest, guide, sigmas, factor)
    return out.clamp(values.min(), values.max())


def _upsample(values: Tensor, guide: Tensor, sigmas: tuple[float, float], factor: int) -> Tensor:
    """Upsample one image ``[h, w, C]`` to the size of its guide, ``[H, W, C]``."""
    height, width = guide.shape[:2]
    whole = (slice(0, height), slice(0, width))
    coarse = block_means(pixel_features(guide, whole, sigmas)[None], factor)[0]
    sums = filter_sums(values, guide, sigmas, factor, coarse).flatten(0, 1)
    reached = sums[:, -1] > 0
    out = divide_by_mass(sums)
    missing = (~reached).nonzero()[:, 0]
    if len(missing):
        pos = torch.stack([missing % width, missing // width], 1).to(guide.dtype)
        color = guide.flatten(0, 1)[missing]
        feature = torch.cat([pos / sigmas[0], color / sigmas[1]], 1)
        x, none = values.flatten(0, 1), reached[missing]
        filled = fill_unreached(out[missing], none, x, (coarse.flatten(0, 1), feature))
        out = out.index_put((missing,), filled)
    return out.view(height, width, -1)
