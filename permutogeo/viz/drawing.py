"""Drawing on PIL images: conversion to RGB, text, and saving."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from permutogeo.data.files import replacing, suffix_of
from permutogeo.data.pixels import load_pixels
from permutogeo.typing import Array

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")

Color = tuple[int, int, int]

PAPER: Color = (255, 255, 255)
INK: Color = (32, 34, 38)
FAINT: Color = (106, 110, 118)


def to_rgb(image: Any, caller: str, limits: tuple[float, float] | None = None) -> Array:
    """Return the image as RGB ``[H, W, 3]`` in [0, 1], without alpha; gray is repeated.

    Args:
        image: A path, a PIL image, an array or a tensor.
        caller: The function that errors name.
        limits: The values of black and white; by default 0 and 1.
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


def check_picture_path(path: str | os.PathLike[str] | None) -> None:
    """Raise unless the suffix is one that pictures are written as."""
    if path is not None:
        suffix_of(Path(path), SUFFIXES)


def save_picture(picture: Any, path: str | os.PathLike[str] | None) -> Any:
    """Write a PIL image atomically and return the path; without a path, return the image."""
    if path is None:
        return picture
    with replacing(Path(path)) as temporary:
        picture.save(temporary)
    return Path(path)


@lru_cache(maxsize=16)
def font(size: int) -> Any:
    """Return Pillow's built-in font at ``size`` pixels, at least 6."""
    from PIL import ImageFont

    return ImageFont.load_default(max(size, 6))


def text_width(text: str, size: int) -> float:
    """Return the width of a line of text in pixels."""
    return font(size).getlength(text)


def fit_text(text: str, size: int, room: float) -> str:
    """Return the text on one line, cut with an ellipsis to at most ``room`` pixels."""
    text = " ".join(text.split())
    if text_width(text, size) <= room:
        return text
    while text and text_width(text + "…", size) > room:
        text = text[:-1]
    return text.rstrip() + "…"
