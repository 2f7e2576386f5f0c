"""The bilateral filter of images."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from permutogeo.functional import gaussian_filter
from permutogeo.image._arrays import channels_last, check_finite, positions


def bilateral_filter(
    image: np.ndarray | Tensor,
    sigma_pos: float,
    sigma_color: float,
    guide: np.ndarray | Tensor | None = None,
) -> np.ndarray | Tensor:
    """Smooth an image within its edges.

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
    images, height, width, channels = values.shape
    feature = torch.cat(
        [
            (positions(height, width, values) / sigma_pos).expand(images, -1, -1, -1),
            guide_values / sigma_color,
        ],
        dim=-1,
    ).flatten(0, 2)
    pixels = height * width
    batch = torch.arange(images, device=values.device).repeat_interleave(pixels)
    try:
        smooth = gaussian_filter(values.flatten(0, 2), feature, batch if images > 1 else None)
    except ValueError as error:
        raise ValueError(
            f"Expected 'sigma_pos' and 'sigma_color' large enough for {height} x {width} pixels "
            f"with colors from {guide_values.min().item():g} to {guide_values.max().item():g} "
            f"(got {sigma_pos:g} and {sigma_color:g})"
        ) from error
    return restore(smooth.view(images, height, width, channels))
