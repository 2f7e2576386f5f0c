"""Segmentation labels over an image."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from permutogeo.data.fields import as_array
from permutogeo.data.pixels import to_pil
from permutogeo.typing import Array
from permutogeo.viz.colors import palette
from permutogeo.viz.drawing import (
    FAINT,
    INK,
    PAPER,
    check_picture_path,
    fit_text,
    font,
    save_picture,
    text_width,
    to_rgb,
)


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
    """Return the pixels with another known label within ``width`` to the right or below."""
    edge = np.zeros(labels.shape, bool)
    for step in range(1, width + 1):
        for axis in (0, 1):
            here = tuple(slice(0, -step) if a == axis else slice(None) for a in (0, 1))
            there = tuple(slice(step, None) if a == axis else slice(None) for a in (0, 1))
            edge[here] |= (labels[here] != labels[there]) & known[here] & known[there]
    return edge


def _legend_rows(entries: Sequence[str], size: int, room: int) -> list[list[int]]:
    """Return the entries of each legend line; an entry is a square, its name and a gap."""
    rows: list[list[int]] = [[]]
    used = 0.0
    for index, name in enumerate(entries):
        need = 2.6 * size + text_width(name, size)
        if rows[-1] and used + need > room:
            rows.append([])
            used = 0.0
        rows[-1].append(index)
        used += need
    return rows


def _with_legend(picture: Any, names: Sequence[str], colors: Array) -> Any:
    """Return the picture with a legend of colored squares and names below."""
    from PIL import Image, ImageDraw

    size = max(round(0.028 * max(picture.size)), 11)
    room = picture.width - size
    names = [fit_text(name, size, room - 2.6 * size) for name in names]
    rows = _legend_rows(names, size, room)
    line = round(1.7 * size)
    sheet = Image.new("RGB", (picture.width, picture.height + line * len(rows) + size), PAPER)
    sheet.paste(picture, (0, 0))
    pen = ImageDraw.Draw(sheet)
    for number, row in enumerate(rows):
        x, y = float(size) / 2, picture.height + round(0.6 * size) + number * line
        for index in row:
            box = (round(x), y, round(x) + size, y + size)
            pen.rectangle(box, fill=tuple(colors[index].tolist()), outline=FAINT)
            place = (x + 1.4 * size, y + size / 2)
            pen.text(place, names[index], fill=INK, font=font(size), anchor="lm")
            x += 2.6 * size + text_width(names[index], size)
    return sheet


def _label_name(names: Sequence[str] | Mapping[int, str] | None, label: int) -> str:
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
    r"""Draws the labels of a segmentation over its image.

    Labels have the colors of :func:`palette`, white lines separate them, and a legend names those
    that occur.

    Args:
        image: A path, a PIL image, an array :math:`(H, W)` or :math:`(H, W, C)`, or a tensor
            :math:`(C, H, W)` or :math:`(H, W)`. It is not changed.
        labels: The label of each pixel, :math:`(H, W)`, integers from 0.
        path: Output file (``.png``, ``.jpg``, ``.webp``), written atomically. By default a PIL
            image is returned.
        names: Names of the labels, as a sequence or by number; by default the legend shows
            numbers.
        opacity: Opacity of the label colors, from 0 to 1.
        void: The label of unlabeled pixels, which keep their color.
        legend: Whether to add the legend.

    Example:
        >>> import numpy as np
        >>> from permutogeo.viz import overlay
        >>> labels = np.repeat([[0, 1, 2]], 64, axis=0).repeat(32, axis=1)
        >>> overlay(np.ones((64, 96, 3)), labels, legend=False).size
        (96, 64)
    """
    check_picture_path(path)
    pixels = to_rgb(image, "overlay")
    index = _check_labels(labels, pixels.shape[:2], opacity)
    present = [int(label) for label in np.unique(index) if label != void]
    colors = palette(max(present, default=-1) + 1)
    painted = pixels.copy()
    known = index != void if void is not None else np.ones(index.shape, bool)
    painted[known] += opacity * (colors[index[known]] / 255.0 - painted[known])
    edge = _boundaries(index, known, max(1, round(max(index.shape) / 400)))
    painted[edge] = 0.15 * painted[edge] + 0.85
    picture = to_pil(painted)
    if legend and present:
        picture = _with_legend(picture, [_label_name(names, i) for i in present], colors[present])
    return save_picture(picture, path)
