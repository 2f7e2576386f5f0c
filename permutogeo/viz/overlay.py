"""Labels painted over an image."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from permutogeo.data._fields import Array, as_array
from permutogeo.viz import _text
from permutogeo.viz._image import check_path, color_pixels, to_picture, written
from permutogeo.viz.colors import palette

PAPER = (255, 255, 255)


def _check_labels(labels: Any, shape: tuple[int, ...], opacity: float) -> Array:
    array = as_array(labels, "overlay", "labels")
    if array.shape != shape or array.dtype.kind not in "iu":
        expected = f"'labels' of shape {list(shape)} and an integer type"
        got = f"{list(array.shape)} {array.dtype}"
        raise ValueError(f"overlay: Expected {expected} (got {got})")
    if array.min() < 0:
        raise ValueError(f"overlay: Expected 'labels' >= 0 (got {array.min()})")
    if not 0.0 <= opacity <= 1.0:
        raise ValueError(f"overlay: Expected 'opacity' in [0, 1] (got {opacity})")
    return array.astype(np.int64)


def _boundaries(labels: Array, known: Array, width: int) -> Array:
    """Pixels that meet another known label within ``width`` to the right or below."""
    edge = np.zeros(labels.shape, bool)
    for step in range(1, width + 1):
        for axis in (0, 1):
            here = tuple(slice(0, -step) if a == axis else slice(None) for a in (0, 1))
            there = tuple(slice(step, None) if a == axis else slice(None) for a in (0, 1))
            edge[here] |= (labels[here] != labels[there]) & known[here] & known[there]
    return edge


def _legend_rows(entries: Sequence[str], size: int, room: int) -> list[list[int]]:
    """Which entries stand on which line; each is a square, its name and a gap."""
    rows: list[list[int]] = [[]]
    used = 0.0
    for index, name in enumerate(entries):
        need = 2.6 * size + _text.width(name, size)
        if rows[-1] and used + need > room:
            rows.append([])
            used = 0.0
        rows[-1].append(index)
        used += need
    return rows


def _with_legend(picture: Any, names: Sequence[str], colors: Array) -> Any:
    """The picture with a strip of colored squares and names below."""
    from PIL import Image, ImageDraw

    size = max(round(0.028 * max(picture.size)), 11)
    room = picture.width - size
    names = [_text.fitted(name, size, room - 2.6 * size) for name in names]
    rows = _legend_rows(names, size, room)
    line = round(1.7 * size)
    sheet = Image.new("RGB", (picture.width, picture.height + line * len(rows) + size), PAPER)
    sheet.paste(picture, (0, 0))
    pen = ImageDraw.Draw(sheet)
    for number, row in enumerate(rows):
        x, y = float(size) / 2, picture.height + round(0.6 * size) + number * line
        for index in row:
            box = (round(x), y, round(x) + size, y + size)
            pen.rectangle(box, fill=tuple(colors[index].tolist()), outline=_text.FAINT)
            place = (x + 1.4 * size, y + size / 2)
            pen.text(place, names[index], fill=_text.INK, font=_text.font(size), anchor="lm")
            x += 2.6 * size + _text.width(names[index], size)
    return sheet


def _name(names: Sequence[str] | Mapping[int, str] | None, label: int) -> str:
    if isinstance(names, Mapping):
        return str(names.get(label, label))
    return str(names[label]) if names is not None and label < len(names) else str(label)


def overlay(
    image: Any,
    labels: np.ndarray | Tensor,
    path: str | os.PathLike[str] | None = None,
    *,
    names: Sequence[str] | Mapping[int, str] | None = None,
    opacity: float = 0.5,
    void: int | None = 255,
    legend: bool = True,
) -> Any:
    r"""Paints the labels of a segmentation over its image.

    Each label has its color of :func:`palette`; white lines run where labels meet, and a strip
    below names the labels that occur.

    Args:
        image: A path, a PIL image, an array :math:`(H, W)` or :math:`(H, W, C)`, or a tensor
            :math:`(C, H, W)` or :math:`(H, W)`. It is never changed.
        labels: The label of each pixel, :math:`(H, W)`, integers from 0.
        path: Where to write (``.png``, ``.jpg``, ``.webp``), whole or not at all. Without it a
            PIL image is returned.
        names: The names of the labels, in their order or by number; without them the legend has
            the numbers.
        opacity: How much of the color covers the image, from 0 to 1.
        void: A label that is no label: its pixels are left as they are.
        legend: Whether to add the strip with the names.

    Example:
        >>> import numpy as np
        >>> from permutogeo.viz import overlay
        >>> labels = np.repeat([[0, 1, 2]], 64, axis=0).repeat(32, axis=1)
        >>> overlay(np.ones((64, 96, 3)), labels, legend=False).size
        (96, 64)
    """
    check_path(path)
    pixels = color_pixels(image, "overlay")
    index = _check_labels(labels, pixels.shape[:2], opacity)
    present = [int(label) for label in np.unique(index) if label != void]
    colors = palette(max(present, default=-1) + 1)
    painted = pixels.copy()
    known = index != void if void is not None else np.ones(index.shape, bool)
    painted[known] += opacity * (colors[index[known]] / 255.0 - painted[known])
    edge = _boundaries(index, known, max(1, round(max(index.shape) / 400)))
    painted[edge] = 0.15 * painted[edge] + 0.85
    picture = to_picture(painted)
    if legend and present:
        picture = _with_legend(picture, [_name(names, i) for i in present], colors[present])
    return written(picture, path)
