"""What is done to images, where a pixel is a point of position and color.

Arrays are ``[H, W]`` or ``[H, W, C]``, tensors ``[C, H, W]`` or ``[B, C, H, W]``, of uint8 or
float; what comes back has the kind, shape and type of what went in. Pixel centres lie at integers.
"""

from permutogeo.image.bilateral import bilateral_filter
from permutogeo.image.segmentation import segment
from permutogeo.image.upsampling import joint_bilateral_upsample

__all__ = ["bilateral_filter", "joint_bilateral_upsample", "segment"]
