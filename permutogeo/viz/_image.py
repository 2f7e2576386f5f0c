"""Images as pixels to paint on, and pictures as files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from permutogeo.data._fields import Array
from permutogeo.data._files import replacing, suffix_of
from permutogeo.data._pixels import load_pixels

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")


def color_pixels(image: Any, caller: str, limits: tuple[float, float] | None = None) -> Array:
    """The image as RGB ``[H, W, 3]`` in [0, 1], without alpha; gray is repeated.

    Args:
        image: A path, a PIL image, an array or a tensor.
        caller: The function that errors name.
        limits: The values that are black and white; by default 0 and 1.
    """
    pixels = load_pixels(image).cpu().numpy().astype(np.float64)
    if pixels.shape[2] not in (1, 2, 3, 4):
        raise ValueError(f"{caller}: Expected an image of 1 to 4 channels (got {pixels.shape[2]})")
    pixels = pixels[..., :3] if pixels.shape[2] >= 3 else pixels[..., :1].repeat(3, axis=2)
    if limits is not None:
        low, high = limits
        if not low < high:
            raise ValueError(f"{caller}: Expected 'limits' that ascend (got {limits})")
        pixels = (pixels - low) / (high - low)
    return np.clip(pixels, 0.0, 1.0)


def to_picture(pixels: Array) -> Any:
    """Pixels ``[H, W, 3]`` in [0, 1] as a PIL image."""
    from PIL import Image

    return Image.fromarray(np.rint(255 * pixels).astype(np.uint8))


def check_path(path: str | os.PathLike[str] | None) -> None:
    """Raise where a picture has a suffix that it cannot have."""
    if path is not None:
        suffix_of(Path(path), SUFFIXES)


def written(picture: Any, path: str | os.PathLike[str] | None) -> Any:
    """The picture itself, or the path that it was written to, whole or not at all."""
    if path is None:
        return picture
    with replacing(Path(path)) as temporary:
        picture.save(temporary)
    return Path(path)
