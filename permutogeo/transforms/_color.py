"""Color spaces in torch."""

from __future__ import annotations

import torch
from torch import Tensor

# sRGB (ITU-R BT.709 primaries) to CIE XYZ, and the white point D65 seen at 2 degrees.
XYZ_OF_RGB = (
    (0.412453, 0.357580, 0.180423),
    (0.212671, 0.715160, 0.072169),
    (0.019334, 0.119193, 0.950227),
)
WHITE = (0.95047, 1.0, 1.08883)
LUMA = (0.299, 0.587, 0.114)


def rgb_to_lab(rgb: Tensor) -> Tensor:
    """sRGB in [0, 1] as CIE L*a*b*, ``[..., 3]``; L runs from 0 to 100."""
    linear = torch.where(
        rgb > 0.04045, ((rgb.clamp(min=0.04045) + 0.055) / 1.055) ** 2.4, rgb / 12.92
    )
    xyz = linear @ linear.new_tensor(XYZ_OF_RGB).t() / linear.new_tensor(WHITE)
    root = xyz.clamp(min=0.008856) ** (1.0 / 3.0)
    f = torch.where(xyz > 0.008856, root, 7.787 * xyz + 16.0 / 116.0)
    x, y, z = f.unbind(dim=-1)
    return torch.stack([116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)], dim=-1)


def rgb_to_intensity(rgb: Tensor) -> Tensor:
    """Luma of Rec. 601, ``[..., 3]`` to ``[..., 1]``."""
    return (rgb * rgb.new_tensor(LUMA)).sum(dim=-1, keepdim=True)
