"""A z-buffer in NumPy: which triangle, or which point, each pixel shows.

Every triangle is tried at the pixels of its bounding box; distance and number of those that cover
a pixel make one integer, of which the pixel keeps the least.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from permutogeo.data._fields import Array

Size = tuple[int, int]  # width and height in pixels

CHUNK = 1 << 16  # arrays that stay in the cache
NOTHING = np.uint64(2**64 - 1)


def _candidates(low: Array, high: Array, size: Size) -> Iterator[tuple[Array, Array, Array]]:
    """Item, column and row of all pixels of the boxes ``[low, high] [N, 2]``, in chunks."""
    low, high = np.maximum(low, 0), np.minimum(high, np.array(size) - 1)
    extent = np.maximum(high - low + 1, 0)
    item = np.flatnonzero(extent.prod(axis=1))
    count = extent[item].prod(axis=1)
    end = np.cumsum(count)
    start = 0
    while start < len(item):
        done = end[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(end, done + CHUNK, side="right")))
        owner = np.repeat(item[start:stop], count[start:stop])
        place = np.arange(end[stop - 1] - done)
        place -= np.repeat(end[start:stop] - count[start:stop] - done, count[start:stop])
        row, column = np.divmod(place, extent[owner, 0])
        yield owner, low[owner, 0] + column, low[owner, 1] + row
        start = stop


def _keep_nearest(buffer: Array, pixel: Array, depth: Array, item: Array) -> None:
    """``depth`` in [0, 1); pixels keep the nearest item, and of equals the lower number."""
    key = (depth * 2.0**31).astype(np.uint64) << np.uint64(32) | item.astype(np.uint64)
    np.minimum.at(buffer, pixel, key)


def _winners(buffer: Array) -> tuple[Array, Array]:
    pixel = np.flatnonzero(buffer != NOTHING)
    return pixel, (buffer[pixel] & np.uint64(0xFFFFFFFF)).astype(np.int64)


def _planes(corner: Array) -> Array:
    """For each triangle ``[F, 3, 2]`` the coefficients ``[F, 2, 3]`` of its second and third
    barycentric coordinate as functions of x, y, 1; NaN where it is seen edge-on."""
    a, ab, ac = corner[:, 0], corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]
    area = ab[:, 0] * ac[:, 1] - ab[:, 1] * ac[:, 0]
    area = np.where(np.abs(area) > 1e-12, area, np.nan)
    second = np.stack([ac[:, 1], -ac[:, 0]], axis=1) / area[:, None]
    third = np.stack([-ab[:, 1], ab[:, 0]], axis=1) / area[:, None]
    slope = np.stack([second, third], axis=1)
    return np.concatenate([slope, -np.einsum("fij,fj->fi", slope, a)[:, :, None]], axis=2)


def _barycentric(plane: Array, triangle: Array, x: Array, y: Array) -> tuple[Array, Array]:
    v, w = (
        plane[triangle, k, 0] * x + plane[triangle, k, 1] * y + plane[triangle, k, 2]
        for k in (0, 1)
    )
    return v, w


def draw_triangles(
    screen: Array, inverse_depth: Array, face: Array, size: Size
) -> tuple[Array, Array, Array]:
    """Draw triangles on so many pixels, whose centres lie at halves.

    Args:
        screen: Where the vertices lie, ``[N, 2]`` in pixels.
        inverse_depth: 1 over their distance, ``[N]``; it is linear on the screen.
        face: Triangles ``[F, 3]``.
        size: Width and height.

    Returns:
        The pixels that show something ``[P]`` (row by row), the triangle each shows ``[P]``, and
        where on it, as weights of its corners ``[P, 3]`` that respect the perspective.
    """
    corner, inverse = screen[face], inverse_depth[face]
    plane = _planes(corner)
    low = np.ceil(corner.min(axis=1) - 0.5).astype(np.int64)
    high = np.floor(corner.max(axis=1) - 0.5).astype(np.int64)
    near, far = inverse.max(initial=1e-30), inverse.min(initial=0.0)
    scale = 0.999 / max(near - far, 1e-30)
    buffer = np.full(size[0] * size[1], NOTHING)
    for triangle, column, row in _candidates(low, high, size):
        v, w = _barycentric(plane, triangle, column + 0.5, row + 0.5)
        inside = (v >= -1e-9) & (w >= -1e-9) & (v + w <= 1 + 1e-9)
        triangle, v, w = triangle[inside], v[inside], w[inside]
        a, b, c = inverse[triangle].T
        depth = np.clip((near - (a + v * (b - a) + w * (c - a))) * scale, 0.0, 0.999)
        _keep_nearest(buffer, (row * size[0] + column)[inside], depth, triangle)
    pixel, triangle = _winners(buffer)
    row, column = np.divmod(pixel, size[0])
    v, w = _barycentric(plane, triangle, column + 0.5, row + 0.5)
    weight = np.stack([1 - v - w, v, w], axis=1) * inverse[triangle]
    return pixel, triangle, weight / weight.sum(axis=1, keepdims=True)


def draw_points(
    screen: Array, inverse_depth: Array, radius: Array, size: Size
) -> tuple[Array, Array]:
    """Draw discs of ``radius [N]`` pixels: the pixels that show one ``[P]``, and which ``[P]``."""
    low = np.ceil(screen - radius[:, None] - 0.5).astype(np.int64)
    high = np.floor(screen + radius[:, None] - 0.5).astype(np.int64)
    near, far = inverse_depth.max(initial=1e-30), inverse_depth.min(initial=0.0)
    scale = 0.999 / max(near - far, 1e-30)
    buffer = np.full(size[0] * size[1], NOTHING)
    for point, column, row in _candidates(low, high, size):
        x, y = column + 0.5 - screen[point, 0], row + 0.5 - screen[point, 1]
        inside = x * x + y * y <= radius[point] ** 2
        point = point[inside]
        depth = (near - inverse_depth[point]) * scale
        _keep_nearest(buffer, (row * size[0] + column)[inside], depth, point)
    return _winners(buffer)
