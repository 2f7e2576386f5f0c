"""Joint bilateral upsampling of images."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from permutogeo.image._arrays import _from_float, channels_last, check_finite
from permutogeo.image._windows import features, filter_sums


def joint_bilateral_upsample(
    image: np.ndarray | Tensor,
    guide: np.ndarray | Tensor,
    sigma_pos: float,
    sigma_color: float,
) -> np.ndarray | Tensor:
    r"""Enlarge an image so that it follows the edges of a larger one, after `"Joint Bilateral
    Upsampling" <https://doi.org/10.1145/1276377.1276497>`_.

    Each pixel of the result is the mean of those of the small image, weighted by how near they are
    in position and in the colors of the guide. A small pixel has the mean color of the block of
    :math:`f \times f` pixels of the guide that it covers, and lies in the middle of it: pixel
    :math:`i` at :math:`(i + 1/2) f - 1/2`. Where nothing is that near, the bandwidths are doubled
    until something is: every pixel has a value. For a learned filter see
    :class:`permutogeo.nn.JointBilateralUpsample`.

    Large images are filtered in windows, in memory that does not grow with them.

    Args:
        image: The small image, of any number of channels: colors, depth, labels' scores.
        guide: The large image, gray, in color or of any features: :math:`f` times as high and as
            wide for a whole number :math:`f`; the last blocks may be cut off.
        sigma_pos: Standard deviation in pixels of the guide; about :math:`4 f` serves well.
        sigma_color: Standard deviation in the units of the guide: 0 to 255 if it is uint8.

    Shapes:
        - image: arrays :math:`(h, w)` or :math:`(h, w, C)`, tensors :math:`(C, h, w)` or
          :math:`(B, C, h, w)`
        - guide: arrays :math:`(H, W)` or :math:`(H, W, G)`, tensors :math:`(G, H, W)` or
          :math:`(B, G, H, W)`
        - output: like the image, with the height and width of the guide

    Example:

        >>> depth = np.random.default_rng(0).random((8, 12))
        >>> photo = np.zeros((32, 48, 3), np.uint8)
        >>> joint_bilateral_upsample(depth, photo, sigma_pos=16, sigma_color=10).shape
        (32, 48)
    """
    # Only here: the other filters of images need no layers.
    from permutogeo.nn._upsampling import factor_of

    for name, sigma in (("sigma_pos", sigma_pos), ("sigma_color", sigma_color)):
        if not 0 < sigma < float("inf"):
            raise ValueError(f"Expected '{name}' greater than 0 (got {sigma})")
    values, _ = channels_last("image", image)
    colors, _ = channels_last("guide", guide)
    if len(values) != len(colors) or values.device != colors.device:
        raise ValueError(
            f"Expected a 'guide' for each of {len(values)} images, on {values.device} "
            f"(got {len(colors)} on {colors.device})"
        )
    factor = factor_of(values.shape[1:3], colors.shape[1:3])
    check_finite("image", values)
    check_finite("guide", colors)
    sigmas = (float(sigma_pos), float(sigma_color))
    parts = [_upsampled(x, y, sigmas, factor) for x, y in zip(values, colors, strict=True)]
    empty = values.new_empty(0, *colors.shape[1:3], values.shape[3])
    return _like(image, torch.stack(parts) if parts else empty)


def _upsampled(values: Tensor, guide: Tensor, sigmas: tuple[float, float], factor: int) -> Tensor:
    """One image ``[h, w, C]`` at the size of its guide, ``[H, W, C]``."""
    from permutogeo.nn._upsampling import block_means, fill_unreached

    height, width = guide.shape[:2]
    whole = (slice(0, height), slice(0, width))
    coarse = block_means(features(guide, whole, sigmas)[None], factor)[0]
    sums = filter_sums(values, guide, sigmas, factor, coarse).flatten(0, 1)
    reached = sums[:, -1] > 0
    # Not 0 / 0 where nothing reaches, whose gradient would be NaN.
    out = sums[:, :-1] / torch.where(reached, sums[:, -1], 1).unsqueeze(1)
    missing = (~reached).nonzero()[:, 0]
    if len(missing):
        pos = torch.stack([missing % width, missing // width], 1).to(guide.dtype)
        color = guide.flatten(0, 1)[missing]
        feature = torch.cat([pos / sigmas[0], color / sigmas[1]], 1)
        x, none = values.flatten(0, 1), reached[missing]
        filled = fill_unreached(out[missing], none, x, (coarse.flatten(0, 1), feature))
        out = out.index_put((missing,), filled)
    return out.view(height, width, -1)


def _like(image: np.ndarray | Tensor, large: Tensor) -> np.ndarray | Tensor:
    """Floats ``[B, H, W, C]`` in the kind and type of the image."""
    if isinstance(image, np.ndarray):
        large = _from_float(large[0], torch.from_numpy(np.empty(0, image.dtype)).dtype)
        return large[:, :, 0].numpy() if image.ndim == 2 else large.numpy()
    large = _from_float(large, image.dtype).movedim(-1, -3)
    return large if image.dim() == 4 else large[0]
