"""The bilateral filter of images."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from permutogeo.image._arrays import channels_last, check_finite
from permutogeo.image._windows import filter_sums


def bilateral_filter(
    image: np.ndarray | Tensor,
    sigma_pos: float,
    sigma_color: float,
    guide: np.ndarray | Tensor | None = None,
) -> np.ndarray | Tensor:
    """Smooth an image within its edges.

    Large images are filtered in windows, in memory that does not grow with them.

    Args:
        image: The image to smooth, of any number of channels.
        sigma_pos: Standard deviation in pixels.
        sigma_color: Standard deviation in the units of the guide: 0 to 255 if it is uint8.
        guide: An image of the same size whose edges are kept, the image itself if not given.

    Example:

        >>> image = np.random.default_rng(0).random((32, 48, 3))
        >>> bilateral_filter(image, sigma_pos=4, sigma_color=0.2).shape
        (32, 48, 3)
    """
    for name, sigma in (("sigma_pos", sigma_pos), ("sigma_color", sigma_color)):
        if not sigma > 0:
            raise ValueError(f"Expected '{name}' greater than 0 (got {sigma})")
    values, restore = channels_last("image", image)
    guide_values = values if guide is None else channels_last("guide", guide)[0]
    check_finite("image", values)
    check_finite("guide", guide_values)
    if guide_values.shape[:3] != values.shape[:3]:
        raise ValueError(
            f"Expected 'guide' of the image's size {list(values.shape[:3])} as [B, H, W] "
            f"(got {list(guide_values.shape[:3])})"
        )
    if guide_values.device != values.device:
        raise ValueError(f"Expected 'guide' on {values.device} (got {guide_values.device})")
    sigmas = (float(sigma_pos), float(sigma_color))
    smooth = [_filtered(*pair, sigmas) for pair in zip(values, guide_values, strict=True)]
    return restore(torch.stack(smooth) if smooth else values)


def _filtered(values: Tensor, guide: Tensor, sigmas: tuple[float, float]) -> Tensor:
    """One image ``[H, W, C]``; each pixel reaches itself, so that no sum of ones is 0."""
    sums = filter_sums(values, guide, sigmas)
    return sums[..., :-1] / sums[..., -1:]
