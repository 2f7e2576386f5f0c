"""Software rendering of shapes, without a display or a graphics card.

Triangles are ray cast by Open3D's ``RaycastingScene`` (Embree). Points are drawn here as discs:
Embree has no screen-facing discs in Open3D's interface, and Open3D's own point renderer needs an
OpenGL context, which machines without a display lack.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from permutogeo.data.open3d_loader import load_open3d
from permutogeo.typing import Array
from permutogeo.viz.camera import (
    BACK_FACE,
    COLOR_SOFTNESS,
    DISTANCE,
    Camera,
    project,
    shade,
)
from permutogeo.viz.shapes import Shape

Size = tuple[int, int]  # width and height in pixels

MARGIN = 0.92  # the part of the image that the scene fills
OVERSAMPLING = 2
RAYS_AT_ONCE = 1 << 20
PIXELS_AT_ONCE = 1 << 16  # arrays that stay in the cache
EMPTY = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class VisibilityBuffer:
    """The vertices that each covered pixel interpolates, and its shading."""

    size: Size
    pixel: Array  # [P]
    vertex: Array  # [P, K]
    weight: Array  # [P, K]
    light: Array  # [P]

    def paint(self, color: Array, *, soft: bool = False) -> Array:
        """Return an image ``[H, W, 4]``, premultiplied, from vertex colors ``[N, 3]`` in 0..255.

        Args:
            soft: Whether to reduce the shading, so that colors can be read.
        """
        light = self.light + COLOR_SOFTNESS * (1.0 - self.light) if soft else self.light
        albedo = np.einsum("pk,pkc->pc", self.weight, color[self.vertex] / 255.0)
        width, height = self.size
        fine = np.zeros((width * height, 4))
        fine[self.pixel, :3] = np.minimum(albedo * light[:, None], 1.0)
        fine[self.pixel, 3] = 1.0
        n = OVERSAMPLING
        return fine.reshape(height // n, n, width // n, n, 4).mean(axis=(1, 3))


def render(shape: Shape, camera: Camera, size: Size) -> VisibilityBuffer:
    """Find the visible triangles or points of a shape, with ``OVERSAMPLING``² samples a pixel."""
    size = (OVERSAMPLING * size[0], OVERSAMPLING * size[1])
    scale = MARGIN * float((np.array(size) / 2 / camera.half).min())  # pixels at depth 1
    if shape.face is None:
        return _render_points(shape, camera, size, scale)
    pixel, triangle, weight = cast_rays(shape.pos, shape.face, camera, size, scale)
    light = _face_light(shape.pos[shape.face], camera.rotation)[triangle]
    return VisibilityBuffer(size, pixel, shape.face[triangle], weight, light)


def cast_rays(
    pos: Array, face: Array, camera: Camera, size: Size, scale: float
) -> tuple[Array, Array, Array]:
    """Cast one ray through the center of each pixel.

    Args:
        pos: Vertices ``[N, 3]``.
        face: Triangles ``[F, 3]``.
        camera: The camera.
        size: Width and height.
        scale: Pixels per unit of the image plane.

    Returns:
        The pixels that hit a triangle ``[P]`` (row-major), the triangle ``[P]``, and the
        barycentric coordinates of the hit ``[P, 3]``.
    """
    open3d = load_open3d()
    tensor = open3d.core.Tensor
    scene = open3d.t.geometry.RaycastingScene()
    scene.add_triangles(tensor(pos.astype(np.float32)), tensor(face.astype(np.uint32)))
    miss = scene.INVALID_ID
    found = []
    for start in range(0, size[0] * size[1], RAYS_AT_ONCE):
        pixel = np.arange(start, min(start + RAYS_AT_ONCE, size[0] * size[1]))
        hit = scene.cast_rays(tensor(_rays(pixel, camera, size, scale)))
        triangle = hit["primitive_ids"].numpy()
        kept = triangle != miss
        u, v = hit["primitive_uvs"].numpy()[kept].astype(np.float64).T
        weight = np.stack([1 - u - v, u, v], axis=1)
        found.append((pixel[kept], triangle[kept].astype(np.int64), weight))
    pixels, triangles, weights = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return pixels, triangles, weights


def _rays(pixel: Array, camera: Camera, size: Size, scale: float) -> Array:
    """Return origin and direction of rays through pixel centers, ``[P, 6]`` float32."""
    row, column = np.divmod(pixel, size[0])
    plane = np.stack([column + 0.5 - size[0] / 2, size[1] / 2 - row - 0.5], axis=1) / scale
    view = np.concatenate([plane + camera.center, np.full((len(pixel), 1), -1.0)], axis=1)
    origin = np.broadcast_to(DISTANCE * camera.rotation[2], view.shape)
    return np.concatenate([origin, view @ camera.rotation], axis=1).astype(np.float32)


def _face_light(corner: Array, rotation: Array) -> Array:
    """Return the flat shading of triangles ``[F, 3, 3]``, darker on back faces."""
    normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    light = shade(normal / np.where(length > 0, length, 1.0), rotation)
    to_camera = DISTANCE * rotation[2] - corner[:, 0]
    is_back = (normal * to_camera).sum(axis=1) < 0
    return np.where(is_back, BACK_FACE * light, light)


def _render_points(shape: Shape, camera: Camera, size: Size, scale: float) -> VisibilityBuffer:
    assert shape.normal is not None  # fit_unit_sphere gives every cloud normals
    plane, depth = project(shape.pos, camera.rotation)
    screen = (plane - camera.center) * [scale, -scale] + np.array(size) / 2
    radius = np.maximum(shape.radius * scale / depth, OVERSAMPLING)
    pixel, point = draw_discs(screen, depth, radius, size)
    light = shade(shape.normal, camera.rotation)[point]
    return VisibilityBuffer(size, pixel, point[:, None], np.ones((len(point), 1)), light)


def draw_discs(screen: Array, depth: Array, radius: Array, size: Size) -> tuple[Array, Array]:
    """Draw screen-facing discs through a z-buffer.

    Depth and index of a disc make one integer; each pixel keeps the least.

    Args:
        screen: Centers ``[N, 2]`` in pixels, whose centers lie at halves.
        depth: Distances ``[N]``.
        radius: Radii ``[N]`` in pixels.
        size: Width and height.

    Returns:
        The covered pixels ``[P]`` (row-major) and the disc that each shows ``[P]``.
    """
    low = np.ceil(screen - radius[:, None] - 0.5).astype(np.int64)
    high = np.floor(screen + radius[:, None] - 0.5).astype(np.int64)
    inverse = 1.0 / depth
    near, far = inverse.max(initial=1e-30), inverse.min(initial=0.0)
    level = (np.maximum((near - inverse) * (0.999 / max(near - far, 1e-30)), 0.0)) * 2.0**31
    buffer = np.full(size[0] * size[1], EMPTY)
    for disc, column, row in _box_pixels(low, high, size):
        x, y = column + 0.5 - screen[disc, 0], row + 0.5 - screen[disc, 1]
        inside = x * x + y * y <= radius[disc] ** 2
        disc = disc[inside]
        key = level[disc].astype(np.uint64) << np.uint64(32) | disc.astype(np.uint64)
        np.minimum.at(buffer, (row * size[0] + column)[inside], key)
    pixel = np.flatnonzero(buffer != EMPTY)
    return pixel, (buffer[pixel] & np.uint64(0xFFFFFFFF)).astype(np.int64)


def _box_pixels(low: Array, high: Array, size: Size) -> Iterator[tuple[Array, Array, Array]]:
    """Yield box, column and row of all pixels of the boxes ``[low, high] [N, 2]``, in chunks."""
    low, high = np.maximum(low, 0), np.minimum(high, np.array(size) - 1)
    extent = np.maximum(high - low + 1, 0)
    box = np.flatnonzero(extent.prod(axis=1))
    count = extent[box].prod(axis=1)
    end = np.cumsum(count)
    start = 0
    while start < len(box):
        done = end[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(end, done + PIXELS_AT_ONCE, side="right")))
        owner = np.repeat(box[start:stop], count[start:stop])
        place = np.arange(end[stop - 1] - done)
        place -= np.repeat(end[start:stop] - count[start:stop] - done, count[start:stop])
        row, column = np.divmod(place, extent[owner, 0])
        yield owner, low[owner, 0] + column, low[owner, 1] + row
        start = stop
