"""Images side by side, with captions and details."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from permutogeo.data._fields import Array
from permutogeo.viz import _text
from permutogeo.viz._image import check_path, color_pixels, to_picture, written

PAPER = (255, 255, 255)
FRAME = (255, 196, 0)
# The letters of captions, relative to the width of a panel, and the least and most of them.
LETTER, SMALLEST, LARGEST = 0.05, 11, 22

Crop = tuple[int, int, int, int]


def image_panels(
    images: Mapping[str, Any],
    path: str | os.PathLike[str] | None = None,
    *,
    notes: Mapping[str, Any] | None = None,
    crop: Crop | None = None,
    columns: int | None = None,
    width: int = 320,
    title: str = "",
    limits: tuple[float, float] | None = None,
) -> Any:
    r"""Draws images side by side, each with its name below, such as before and after a filter.

    All panels have the size of the largest image; smaller ones, such as what is upsampled, are
    enlarged by repeating their pixels.

    Args:
        images: Names, and images: a path, a PIL image, an array :math:`(H, W)` or
            :math:`(H, W, C)`, or a tensor :math:`(C, H, W)` or :math:`(H, W)`. They are never
            changed.
        path: Where to write (``.png``, ``.jpg``, ``.webp``), whole or not at all. Without it a
            PIL image is returned.
        notes: A second line for some of the names, such as ``"26.58 dB"``.
        crop: A detail to show enlarged below each image: left, top, width and height in pixels of
            the largest image. A frame marks where it is.
        columns: How many panels stand in a row; by default all, at most 4.
        width: The width of a panel in pixels.
        title: A line above.
        limits: The values that are black and white; by default 0 and 1.

    Example:
        >>> import numpy as np
        >>> from permutogeo.viz import image_panels
        >>> clean = np.linspace(0, 1, 64 * 64).reshape(64, 64)
        >>> noisy = clean + np.random.default_rng(0).normal(0, 0.1, clean.shape)
        >>> image_panels({"clean": clean, "noisy": noisy}, crop=(8, 8, 16, 16), width=100).size
        (212, 229)
    """
    check_path(path)
    if not images:
        raise ValueError("image_panels: Expected at least one image (got none)")
    if not 32 <= width <= 4096:
        raise ValueError(f"image_panels: Expected 'width' from 32 to 4096 pixels (got {width})")
    pixels = {name: color_pixels(image, "image_panels", limits) for name, image in images.items()}
    full = max((each.shape[:2] for each in pixels.values()), key=lambda shape: shape[0] * shape[1])
    pixels = {name: _enlarged(each, full) for name, each in pixels.items()}
    if crop is not None:
        _check_crop(crop, full)
    across = min(columns or 4, len(pixels))
    if across < 1:
        raise ValueError(f"image_panels: Expected 'columns' of at least 1 (got {columns})")
    panels = [
        _panel(each, name, str((notes or {}).get(name, "")), crop, width, bool(notes))
        for name, each in pixels.items()
    ]
    return written(_sheet(panels, across, title), path)


def _check_crop(crop: Crop, shape: tuple[int, ...]) -> None:
    left, top, wide, high = crop
    if not (left >= 0 <= top and wide > 0 < high and left + wide <= shape[1]) or (
        top + high > shape[0]
    ):
        raise ValueError(
            f"image_panels: Expected a 'crop' (left, top, width, height) within {shape[1]} x "
            f"{shape[0]} pixels (got {tuple(crop)})"
        )


def _enlarged(pixels: Array, shape: tuple[int, ...]) -> Array:
    """Each pixel of the larger shape takes the one that it lies in."""
    rows, columns = (
        np.arange(size) * own // size for size, own in zip(shape, pixels.shape[:2], strict=True)
    )
    return pixels[rows][:, columns]


def _resized(pixels: Array, width: int) -> Any:
    """A picture of some width: averages where it shrinks, whole pixels where it grows."""
    from PIL import Image

    picture = to_picture(pixels)
    height = max(1, round(width * picture.height / picture.width))
    grows = width > picture.width
    kind = Image.Resampling.NEAREST if grows else Image.Resampling.LANCZOS
    return picture.resize((width, height), kind)


def _panel(
    pixels: Array, name: str, note: str, crop: Crop | None, width: int, with_notes: bool
) -> Any:
    """The image, its detail, and the lines below."""
    from PIL import Image, ImageDraw

    image = _resized(pixels, width)
    parts = [image]
    if crop is not None:
        left, top, wide, high = crop
        parts.append(_resized(pixels[top : top + high, left : left + wide], width))
        scale = width / pixels.shape[1]
        box = [scale * side for side in (left, top, left + wide, top + high)]
        line = max(1, width // 160)
        ImageDraw.Draw(image).rectangle(box, outline=FRAME, width=line)
        ImageDraw.Draw(parts[1]).rectangle(
            (0, 0, width - 1, parts[1].height - 1), outline=FRAME, width=line
        )
    letter = _letter(width)
    lines = round(letter * (3.2 if with_notes else 1.8))
    height = sum(part.height for part in parts) + (len(parts) - 1) * (letter // 3) + lines
    panel = Image.new("RGB", (width, height), PAPER)
    y = 0
    for part in parts:
        panel.paste(part, (0, y))
        y += part.height + letter // 3
    pen = ImageDraw.Draw(panel)
    _centered(pen, y, name, letter, width, _text.INK)
    _centered(pen, y + 1.4 * letter, note, letter, width, _text.FAINT)
    return panel


def _letter(width: int) -> int:
    return min(max(round(LETTER * width), SMALLEST), LARGEST)


def _centered(
    pen: Any, y: float, text: str, size: int, room: int, color: tuple[int, int, int]
) -> None:
    line = _text.fitted(text, size, room)
    x = (room - _text.width(line, size)) / 2
    pen.text((x, y), line, fill=color, font=_text.font(size))


def _sheet(panels: list[Any], columns: int, title: str) -> Any:
    """The panels in rows, under a title."""
    from PIL import Image, ImageDraw

    wide, high = panels[0].size
    gap = max(4, wide // 24)
    letter = _letter(wide)
    top = gap + (round(2.2 * letter) if title else 0)
    rows = math.ceil(len(panels) / columns)
    width, height = gap + columns * (wide + gap), top + rows * (high + gap // 2)
    sheet = Image.new("RGB", (width, height), PAPER)
    if title:
        line = _text.fitted(title, round(1.2 * letter), width - 2 * gap)
        font = _text.font(round(1.2 * letter))
        ImageDraw.Draw(sheet).text((gap, gap), line, fill=_text.INK, font=font)
    for i, panel in enumerate(panels):
        row, column = divmod(i, columns)
        sheet.paste(panel, (gap + column * (wide + gap), top + row * (high + gap // 2)))
    return sheet
