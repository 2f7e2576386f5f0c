"""Images side by side, with captions and enlarged details."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from permutogeo.data.pixels import to_pil
from permutogeo.typing import Array
from permutogeo.viz.drawing import (
    FAINT,
    INK,
    PAPER,
    Color,
    check_picture_path,
    fit_text,
    font,
    save_picture,
    text_width,
    to_rgb,
)

FRAME = (255, 196, 0)
# Font size of captions relative to the panel width, and its bounds in pixels.
FONT_SCALE, MIN_FONT, MAX_FONT = 0.05, 11, 22

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
    r"""Draws images side by side with captions, such as before and after a filter.

    All panels have the size of the largest image; smaller images are enlarged by nearest-neighbor
    interpolation.

    Args:
        images: Names and images: a path, a PIL image, an array :math:`(H, W)` or
            :math:`(H, W, C)`, or a tensor :math:`(C, H, W)` or :math:`(H, W)`. They are not
            changed.
        path: Output file (``.png``, ``.jpg``, ``.webp``), written atomically. By default a PIL
            image is returned.
        notes: Second caption lines by name, such as ``"26.58 dB"``.
        crop: A detail shown enlarged below each image: left, top, width and height in pixels of
            the largest image. A frame marks its position.
        columns: Number of panels in a row; by default all, at most 4.
        width: Width of a panel in pixels.
        title: Title above the panels.
        limits: The values of black and white; by default 0 and 1.

    Example:
        >>> import numpy as np
        >>> from permutogeo.viz import image_panels
        >>> clean = np.linspace(0, 1, 64 * 64).reshape(64, 64)
        >>> noisy = clean + np.random.default_rng(0).normal(0, 0.1, clean.shape)
        >>> image_panels({"clean": clean, "noisy": noisy}, crop=(8, 8, 16, 16), width=100).size
        (212, 229)
    """
    check_picture_path(path)
    if not images:
        raise ValueError("image_panels: Expected at least one image (got none)")
    if not 32 <= width <= 4096:
        raise ValueError(f"image_panels: Expected 'width' from 32 to 4096 pixels (got {width})")
    pixels = {name: to_rgb(image, "image_panels", limits) for name, image in images.items()}
    full = max((each.shape[:2] for each in pixels.values()), key=lambda shape: shape[0] * shape[1])
    pixels = {name: _enlarge(each, full) for name, each in pixels.items()}
    if crop is not None:
        _check_crop(crop, full)
    across = min(columns or 4, len(pixels))
    if across < 1:
        raise ValueError(f"image_panels: Expected 'columns' of at least 1 (got {columns})")
    panels = [
        _panel(each, name, str((notes or {}).get(name, "")), crop, width, bool(notes))
        for name, each in pixels.items()
    ]
    return save_picture(_arrange(panels, across, title), path)


def _check_crop(crop: Crop, shape: tuple[int, ...]) -> None:
    left, top, wide, high = crop
    if not (left >= 0 <= top and wide > 0 < high and left + wide <= shape[1]) or (
        top + high > shape[0]
    ):
        raise ValueError(
            f"image_panels: Expected a 'crop' (left, top, width, height) within {shape[1]} x "
            f"{shape[0]} pixels (got {tuple(crop)})"
        )


def _enlarge(pixels: Array, shape: tuple[int, ...]) -> Array:
    """Return the pixels resampled to a larger shape by nearest neighbor."""
    rows, columns = (
        np.arange(size) * own // size for size, own in zip(shape, pixels.shape[:2], strict=True)
    )
    return pixels[rows][:, columns]


def _resize(pixels: Array, width: int) -> Any:
    """Return a PIL image of the given width: Lanczos to shrink, nearest neighbor to enlarge."""
    from PIL import Image

    picture = to_pil(pixels)
    height = max(1, round(width * picture.height / picture.width))
    grows = width > picture.width
    kind = Image.Resampling.NEAREST if grows else Image.Resampling.LANCZOS
    return picture.resize((width, height), kind)


def _panel(
    pixels: Array, name: str, note: str, crop: Crop | None, width: int, with_notes: bool
) -> Any:
    """Return the image above its detail and caption."""
    from PIL import Image, ImageDraw

    image = _resize(pixels, width)
    parts = [image]
    if crop is not None:
        left, top, wide, high = crop
        parts.append(_resize(pixels[top : top + high, left : left + wide], width))
        scale = width / pixels.shape[1]
        box = [scale * side for side in (left, top, left + wide, top + high)]
        line = max(1, width // 160)
        ImageDraw.Draw(image).rectangle(box, outline=FRAME, width=line)
        ImageDraw.Draw(parts[1]).rectangle(
            (0, 0, width - 1, parts[1].height - 1), outline=FRAME, width=line
        )
    size = _font_size(width)
    lines = round(size * (3.2 if with_notes else 1.8))
    height = sum(part.height for part in parts) + (len(parts) - 1) * (size // 3) + lines
    panel = Image.new("RGB", (width, height), PAPER)
    y = 0
    for part in parts:
        panel.paste(part, (0, y))
        y += part.height + size // 3
    pen = ImageDraw.Draw(panel)
    _write_centered(pen, y, name, size, width, INK)
    _write_centered(pen, y + 1.4 * size, note, size, width, FAINT)
    return panel


def _font_size(width: int) -> int:
    return min(max(round(FONT_SCALE * width), MIN_FONT), MAX_FONT)


def _write_centered(pen: Any, y: float, text: str, size: int, room: int, color: Color) -> None:
    line = fit_text(text, size, room)
    x = (room - text_width(line, size)) / 2
    pen.text((x, y), line, fill=color, font=font(size))


def _arrange(panels: list[Any], columns: int, title: str) -> Any:
    """Return the panels in rows, under a title."""
    from PIL import Image, ImageDraw

    wide, high = panels[0].size
    gap = max(4, wide // 24)
    size = _font_size(wide)
    top = gap + (round(2.2 * size) if title else 0)
    rows = math.ceil(len(panels) / columns)
    width, height = gap + columns * (wide + gap), top + rows * (high + gap // 2)
    sheet = Image.new("RGB", (width, height), PAPER)
    if title:
        line = fit_text(title, round(1.2 * size), width - 2 * gap)
        ImageDraw.Draw(sheet).text((gap, gap), line, fill=INK, font=font(round(1.2 * size)))
    for i, panel in enumerate(panels):
        row, column = divmod(i, columns)
        sheet.paste(panel, (gap + column * (wide + gap), top + row * (high + gap // 2)))
    return sheet
