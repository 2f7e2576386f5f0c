"""Filters for images, where a pixel is a point of position and color.

Arrays are ``[H, W]`` or ``[H, W, C]``, tensors ``[C, H, W]`` or ``[B, C, H, W]``, of uint8 or
float; what comes back has the kind, shape and type of what went in. Pixel centres lie at integers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from permutogeo.functional import gaussian_filter


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
    values, restore = _channels_last("image", image)
    guide_values = values if guide is None else _channels_last("guide", guide)[0]
    _check_finite("image", values)
    _check_finite("guide", guide_values)
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
            (_positions(height, width, values) / sigma_pos).expand(images, -1, -1, -1),
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


def _positions(height: int, width: int, like: Tensor) -> Tensor:
    """Pixel centres ``(x, y)``, ``[H, W, 2]``."""
    y = torch.arange(height, dtype=like.dtype, device=like.device)
    x = torch.arange(width, dtype=like.dtype, device=like.device)
    return torch.stack(torch.meshgrid(x, y, indexing="xy"), dim=-1)


def _channels_last(
    name: str, image: np.ndarray | Tensor
) -> tuple[Tensor, Callable[[Tensor], np.ndarray | Tensor]]:
    """The image as floats ``[B, H, W, C]``, and the way back to its own kind, shape and type."""
    if isinstance(image, np.ndarray):
        if image.ndim not in (2, 3):
            raise ValueError(
                f"Expected '{name}' of shape [H, W] or [H, W, C] (got {list(image.shape)})"
            )
        # Torch wants memory that may be written to, and warns of other arrays.
        tensor = torch.from_numpy(np.require(image, requirements=["C", "W"]))
        channels = 1 if image.ndim == 2 else image.shape[2]
        working = _to_float(name, tensor).reshape(1, *image.shape[:2], channels)
        return working, lambda out: _from_float(out, tensor.dtype).view(image.shape).numpy()
    if isinstance(image, Tensor):
        if image.dim() not in (3, 4):
            raise ValueError(
                f"Expected '{name}' of shape [C, H, W] or [B, C, H, W] (got {list(image.shape)})"
            )
        working = _to_float(name, image).movedim(-3, -1)
        working = working if image.dim() == 4 else working.unsqueeze(0)
        return (
            working,
            lambda out: _from_float(out, image.dtype).movedim(-1, -3).reshape(image.shape),
        )
    raise TypeError(f"Expected '{name}' to be an array or a tensor (got {type(image).__name__})")


def _check_finite(name: str, image: Tensor) -> None:
    if not bool(torch.isfinite(image).all()):
        index = (~torch.isfinite(image)).nonzero()[0].tolist()
        raise ValueError(
            f"Expected finite '{name}' (got {image[tuple(index)].item()} in image {index[0]}, "
            f"row {index[1]}, column {index[2]}, channel {index[3]})"
        )


def _to_float(name: str, image: Tensor) -> Tensor:
    if image.dtype == torch.uint8:
        return image.float()
    if not image.is_floating_point():
        raise TypeError(f"Expected '{name}' of type uint8 or float (got {image.dtype})")
    return image if image.dtype == torch.float64 else image.float()


def _from_float(image: Tensor, dtype: torch.dtype) -> Tensor:
    return image.round().clamp(0, 255).to(dtype) if dtype == torch.uint8 else image.to(dtype)
