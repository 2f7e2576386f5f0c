"""Filters and segmentation of images, whose pixels are points of position and color.

Arrays are ``[H, W]`` or ``[H, W, C]``, tensors ``[C, H, W]`` or ``[B, C, H, W]``, of uint8 or
float; results have the kind, layout and type of the input. Pixel centers lie at integers.
"""

from permutogeo.image.bilateral import bilateral_filter
from permutogeo.image.propagation import bilateral_refine, colorize, propagate_labels
from permutogeo.image.segmentation import segment
from permutogeo.image.upsampling import bilateral_solver_upsample, joint_bilateral_upsample

__all__ = [
    "bilateral_filter",
    "bilateral_refine",
    "bilateral_solver_upsample",
    "colorize",
    "joint_bilateral_upsample",
    "propagate_labels",
    "segment",
]
