"""Lattice cells of the pixels of an image."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch

from permutogeo.data import from_image
from permutogeo.data.pixels import to_pil
from permutogeo.lattice import Lattice
from permutogeo.typing import Array
from permutogeo.viz.colors import palette
from permutogeo.viz.drawing import check_picture_path, save_picture, to_rgb

CELLS = ("simplex", "vertex")
# The first colors of the palette are those of Pascal VOC, some of them dark or similar.
SKIPPED_COLORS = 21
TRIED_ORDERS = 12


def lattice_cells(
    image: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    sigma_pos: float | None = None,
    sigma_color: float | None = None,
    cell: str = "simplex",
    shade: float = 0.0,
) -> Any:
    r"""Colors each pixel by its lattice cell, as in the figures of the `"Learning Sparse High
    Dimensional Filters" <https://arxiv.org/abs/1503.04949>`_ paper.

    Features are :math:`(x, y) / \sigma_p`, colors :math:`/ \sigma_c`, or both concatenated. All
    pixels of a cell have the same color.

    Args:
        image: A path, a PIL image, an array :math:`(H, W)` or :math:`(H, W, C)`, or a tensor
            :math:`(C, H, W)` or :math:`(H, W)`.
        path: Output file (``.png``, ``.jpg``, ``.webp``), written atomically. By default a PIL
            image is returned.
        sigma_pos: Bandwidth of positions in pixels; ``None`` leaves positions out.
        sigma_color: Bandwidth of colors in [0, 1]; ``None`` leaves colors out.
        cell: ``"simplex"`` for the enclosing simplex, or ``"vertex"`` for its nearest vertex.
        shade: Opacity of the image over the cells, from 0 to 1.

    Example:
        >>> import numpy as np
        >>> from permutogeo.viz import lattice_cells
        >>> image = np.random.default_rng(0).random((24, 32, 3))
        >>> cells = np.asarray(lattice_cells(image, sigma_pos=16))
        >>> len(np.unique(cells.reshape(-1, 3), axis=0)) < 40
        True
    """
    check_picture_path(path)
    if cell not in CELLS:
        raise ValueError(f"lattice_cells: Expected 'cell' in {', '.join(CELLS)} (got {cell!r})")
    if not 0.0 <= shade <= 1.0:
        raise ValueError(f"lattice_cells: Expected 'shade' in [0, 1] (got {shade})")
    pixels = to_rgb(image, "lattice_cells")
    index = cell_index(pixels, sigma_pos, sigma_color, cell)
    painted = _colors(index)[index]
    return save_picture(to_pil((1 - shade) * painted + shade * pixels), path)


def cell_index(
    pixels: Array, sigma_pos: float | None, sigma_color: float | None, cell: str = "simplex"
) -> Array:
    """Return the cell of each pixel, ``[H, W]``, numbered from 0 without gaps."""
    lattice = Lattice.build(_feature(pixels, sigma_pos, sigma_color))
    if cell == "simplex":
        # All points of a simplex list its vertices in the same order.
        corners = lattice.vertex.numpy()
    else:
        nearest = lattice.weight.argmax(1, keepdim=True)
        corners = lattice.vertex.gather(1, nearest).numpy()
    _, index = np.unique(corners, axis=0, return_inverse=True)
    return index.reshape(pixels.shape[:2])


def _feature(pixels: Array, sigma_pos: float | None, sigma_color: float | None) -> torch.Tensor:
    data = from_image(pixels)
    parts = []
    for name, values, sigma in (
        ("sigma_pos", data.pos, sigma_pos),
        ("sigma_color", data.x, sigma_color),
    ):
        if sigma is not None:
            if not sigma > 0:
                raise ValueError(f"lattice_cells: Expected '{name}' greater than 0 (got {sigma})")
            parts.append(values / sigma)
    if not parts:
        raise ValueError("lattice_cells: Expected 'sigma_pos', 'sigma_color' or both (got neither)")
    return torch.cat(parts, 1)


def _colors(index: Array) -> Array:
    """Return cell colors in [0, 1]: the random assignment in which neighbors differ most."""
    count = int(index.max()) + 1
    colors = palette(SKIPPED_COLORS + count)[SKIPPED_COLORS:] / 255.0
    below = np.stack([index[:-1].ravel(), index[1:].ravel()])
    beside = np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()])
    pairs = np.concatenate([below, beside], axis=1)
    pairs = pairs[:, pairs[0] != pairs[1]]

    def similarity(order: Array) -> float:
        distance = np.abs(colors[order[pairs[0]]] - colors[order[pairs[1]]]).sum(axis=1)
        return float(np.exp(-4.0 * distance).sum())

    orders = [np.random.default_rng(seed).permutation(count) for seed in range(TRIED_ORDERS)]
    return colors[min(orders, key=similarity)]
