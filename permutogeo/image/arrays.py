"""Conversion of images to float tensors and back, and checks of their pixels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

Image = np.ndarray | Tensor


def pixel_positions(height: int, width: int, like: Tensor) -> Tensor:
    """Return the pixel centers ``(x, y)``, ``[H, W, 2]``."""
    y = torch.arange(height, dtype=like.dtype, device=like.device)
    x = torch.arange(width, dtype=like.dtype, device=like.device)
    return torch.stack(torch.meshgrid(x, y, indexing="xy"), dim=-1)


def to_channels_last(name: str, image: Image) -> Tensor:
    """Return the image as floats ``[B, H, W, C]``; errors call it ``name``."""
    if isinstance(image, np.ndarray):
        if image.ndim not in (2, 3):
            raise ValueError(
                f"Expected '{name}' of shape [H, W] or [H, W, C] (got {list(image.shape)})"
            )
        # Torch warns of read-only arrays.
        tensor = torch.from_numpy(np.require(image, requirements=["C", "W"]))
        channels = 1 if image.ndim == 2 else image.shape[2]
        return _to_float(name, tensor).reshape(1, *image.shape[:2], channels)
    if isinstance(image, Tensor):
        if image.dim() not in (3, 4):
            raise ValueError(
                f"Expected '{name}' of shape [C, H, W] or [B, C, H, W] (got {list(image.shape)})"
            )
        pixels = _to_float(name, image).movedim(-3, -1)
        return pixels if image.dim() == 4 else pixels.unsqueeze(0)
    raise TypeError(f"Expected '{name}' to be an array or a tensor (got {type(image).__name__})")


def restore_layout(pixels: Tensor, like: Image) -> Image:
    """Convert floats ``[B, H, W, C]`` to the kind, layout and type of an image of any size."""
    if isinstance(like, np.ndarray):
        dtype = torch.from_numpy(np.empty(0, like.dtype)).dtype
        array = _from_float(pixels[0], dtype).numpy()
        return array[:, :, 0] if like.ndim == 2 else array
    pixels = _from_float(pixels, like.dtype).movedim(-1, -3)
    return pixels if like.dim() == 4 else pixels[0]


def check_bandwidths(sigma_pos: float, sigma_color: float) -> tuple[float, float]:
    """Raise unless both bandwidths are positive."""
    for name, sigma in (("sigma_pos", sigma_pos), ("sigma_color", sigma_color)):
        if not sigma > 0:
            raise ValueError(f"Expected '{name}' greater than 0 (got {sigma})")
    return float(sigma_pos), float(sigma_color)


def check_pixels(name: str, pixels: Tensor) -> None:
    """Raise if a pixel of ``[B, H, W, C]`` is NaN or infinite."""
    finite = torch.isfinite(pixels)
    if not bool(finite.all()):
        index = (~finite).nonzero()[0].tolist()
        raise ValueError(
            f"Expected finite '{name}' (got {pixels[tuple(index)].item()} in image {index[0]}, "
            f"row {index[1]}, column {index[2]}, channel {index[3]})"
        )


@contextmanager
def locate_bad_pixels(**images: Tensor) -> Iterator[None]:
    """Turn a ``ValueError`` about points into one about the NaN or infinite pixel behind it.

    Lattices check the points that they are built from; this avoids a second pass over the pixels.
    """
    try:
        yield
    except ValueError:
        for name, pixels in images.items():
            check_pixels(name, pixels)
        raise


def _to_float(name: str, image: Tensor) -> Tensor:
    if image.dtype == torch.uint8:
        return image.float()
    if not image.is_floating_point():
        raise TypeError(f"Expected '{name}' of type uint8 or float (got {image.dtype})")
    return image if image.dtype == torch.float64 else image.float()


def _from_float(image: Tensor, dtype: torch.dtype) -> Tensor:
    return image.round().clamp(0, 255).to(dtype) if dtype == torch.uint8 else image.to(dtype)
