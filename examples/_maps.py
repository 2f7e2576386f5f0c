"""Maps of labeled surveys, seen from above."""

import numpy as np
from scipy.ndimage import distance_transform_edt

# Other, ground, tree, building, outlier: classes of the LAS standard.
COLORS = {
    1: (170, 110, 60),
    2: (140, 185, 105),
    5: (35, 100, 45),
    6: (205, 85, 70),
    7: (40, 40, 40),
}


def draw_map(pos, label, wrong=None, size=480):
    """Return a picture ``[H, size, 3]`` of the highest point in each cell, shaded by slope.

    Args:
        pos: Positions ``[N, 3]``.
        label: Class of each point, a key of ``COLORS``.
        wrong: Points to draw in magenta, ``[N]`` bool.
    """
    pos, label = np.asarray(pos), np.asarray(label)
    low, extent = pos[:, :2].min(0), np.ptp(pos[:, :2], axis=0)
    height = max(1, round(size * extent[1] / extent[0]))
    order = np.argsort(pos[:, 2], kind="stable")  # the highest is written last
    cell = ((pos[order, :2] - low) / extent * (size, height)).astype(int)
    column, row = cell[:, 0].clip(0, size - 1), height - 1 - cell[:, 1].clip(0, height - 1)
    colors = np.zeros((max(COLORS) + 1, 3))
    colors[list(COLORS)] = list(COLORS.values())
    color = colors[label[order]]
    if wrong is not None:
        color[np.asarray(wrong)[order]] = (230, 0, 200)
    image, ground = np.zeros((height, size, 3)), np.full((height, size), np.nan)
    image[row, column], ground[row, column] = color, pos[order, 2]
    # Cells without a point get the nearest one.
    near = distance_transform_edt(np.isnan(ground), return_distances=False, return_indices=True)
    image, ground = image[tuple(near)], ground[tuple(near)]
    slope = np.gradient(ground, axis=0) - np.gradient(ground, axis=1)
    return (image * (1 + 0.2 * np.tanh(slope))[..., None]).clip(0, 255).astype(np.uint8)
