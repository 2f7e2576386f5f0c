"""Maps of labeled point clouds, seen from above."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt
from torch import Tensor

#: Unclassified, ground, high vegetation, building and low noise: classes of the LAS standard.
LAS_COLORS = {
    1: (170, 110, 60),
    2: (140, 185, 105),
    5: (35, 100, 45),
    6: (205, 85, 70),
    7: (40, 40, 40),
}
WRONG = (230, 0, 200)


def cloud_map(
    pos: Tensor | NDArray[Any],
    label: Tensor | NDArray[Any],
    *,
    wrong: Tensor | NDArray[Any] | None = None,
    colors: Mapping[int, tuple[int, int, int]] | None = None,
    size: int = 480,
) -> NDArray[np.uint8]:
    r"""Draws the highest point in each cell of a survey, shaded by slope.

    Cells without a point have the color and height of the nearest cell with one.

    Args:
        pos: Positions :math:`(N, 3)`, with the height last.
        label: Class of each point :math:`(N)`.
        wrong: Points to draw in magenta, :math:`(N)` bool.
        colors: Color of each class; by default those of the LAS classes 1, 2, 5, 6 and 7.
        size: Width of the picture in pixels.

    Shapes:
        - output: :math:`(H, size, 3)`, uint8

    Example:
        >>> import numpy as np
        >>> from permutogeo.viz import cloud_map
        >>> pos = np.random.default_rng(0).random((1000, 3)) * [10, 5, 0.1]
        >>> cloud_map(pos, np.full(1000, 2), size=40).shape
        (20, 40, 3)
    """
    place, classes = np.asarray(pos), np.asarray(label)
    colors = LAS_COLORS if colors is None else colors
    if place.ndim != 2 or place.shape[1] != 3 or len(place) == 0 or size < 2:
        got = f"{list(place.shape)} and {size}"
        raise ValueError(f"cloud_map: Expected 'pos' of shape [N, 3], 'size' above 1 (got {got})")
    low, extent = place[:, :2].min(0), np.ptp(place[:, :2], axis=0)
    if not (extent > 0).all():
        got = " x ".join(f"{side:g}" for side in extent)
        raise ValueError(f"cloud_map: Expected 'pos' over an area (got one of {got})")
    if not np.isin(classes, list(colors)).all():
        others = sorted(set(np.unique(classes).tolist()) - set(colors))
        raise ValueError(f"cloud_map: Expected classes among {sorted(colors)} (got {others})")
    height = max(2, round(size * extent[1] / extent[0]))
    order = np.argsort(place[:, 2], kind="stable")  # the highest is written last
    cell = ((place[order, :2] - low) / extent * (size, height)).astype(int)
    column, row = cell[:, 0].clip(0, size - 1), height - 1 - cell[:, 1].clip(0, height - 1)
    palette = np.zeros((max(colors) + 1, 3))
    palette[list(colors)] = list(colors.values())
    color = palette[classes[order]]
    if wrong is not None:
        color[np.asarray(wrong)[order]] = WRONG
    image, ground = np.zeros((height, size, 3)), np.full((height, size), np.nan)
    image[row, column], ground[row, column] = color, place[order, 2]
    near = distance_transform_edt(np.isnan(ground), return_distances=False, return_indices=True)
    image, ground = image[tuple(near)], ground[tuple(near)]
    slope = np.gradient(ground, axis=0) - np.gradient(ground, axis=1)
    return (image * (1 + 0.2 * np.tanh(slope))[..., None]).clip(0, 255).astype(np.uint8)
