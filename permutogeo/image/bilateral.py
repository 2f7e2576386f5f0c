"""The bilateral filter."""

from __future__ import annotations

import torch

from permutogeo.image.arrays import (
    Image,
    check_bandwidths,
    check_pixels,
    locate_bad_pixels,
    restore_layout,
    to_channels_last,
)
from permutogeo.image.windows import filter_sums
from permutogeo.lattice.normalization import divide_by_mass


def bilateral_filter(
    image: Image, sigma_pos: float, sigma_color: float, guide: Image | None = None
) -> Image:
    r"""Apply the bilateral filter of `"Bilateral Filtering for Gray and Color Images"
    <https://doi.org/10.1109/ICCV.1998.710815>`_ on the permutohedral lattice.

    .. math::
        \mathbf{x}^{\prime}_i = \frac{1}{n_i} \sum_j \exp \left( - \frac{|\mathbf{p}_i -
        \mathbf{p}_j|^2}{2 \sigma_p^2} - \frac{|\mathbf{g}_i - \mathbf{g}_j|^2}{2 \sigma_c^2}
        \right) \mathbf{x}_j

    where :math:`\mathbf{p}` are the positions, :math:`\mathbf{g}` the colors of the guide and
    :math:`n_i` the sum of the weights. Large images are filtered in windows, with bounded memory.

    Args:
        image: The image, with any number of channels.
        sigma_pos: Bandwidth of positions in pixels.
        sigma_color: Bandwidth of colors in the units of the guide: 0 to 255 if it is uint8.
        guide: The image whose edges are preserved, of the same size; by default the image itself.

    Shapes:
        - image: arrays :math:`(H, W)` or :math:`(H, W, C)`, tensors :math:`(C, H, W)` or
          :math:`(B, C, H, W)`
        - output: like the image

    Example:

        >>> import numpy as np
        >>> image = np.random.default_rng(0).random((32, 48, 3))
        >>> bilateral_filter(image, sigma_pos=4, sigma_color=0.2).shape
        (32, 48, 3)
    """
    sigmas = check_bandwidths(sigma_pos, sigma_color)
    values = to_channels_last("image", image)
    colors = values if guide is None else to_channels_last("guide", guide)
    if colors.shape[:3] != values.shape[:3]:
        raise ValueError(
            f"Expected 'guide' of the image's size {list(values.shape[:3])} as [B, H, W] "
            f"(got {list(colors.shape[:3])})"
        )
    if colors.device != values.device:
        raise ValueError(f"Expected 'guide' on {values.device} (got {colors.device})")
    if guide is not None:
        check_pixels("image", values)
    with locate_bad_pixels(**{"image" if guide is None else "guide": colors}):
        smooth = [
            # Each pixel reaches itself: no mass is 0.
            divide_by_mass(filter_sums(*pair, sigmas))
            for pair in zip(values, colors, strict=True)
        ]
    return restore_layout(torch.stack(smooth) if smooth else values, image)
