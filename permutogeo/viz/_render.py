"""Panels as images, drawn in memory: no display and no graphics card are needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permutogeo.data._fields import Array
from permutogeo.viz._camera import Camera, project
from permutogeo.viz._panels import Panel
from permutogeo.viz._raster import Size, draw_points, draw_triangles
from permutogeo.viz._shade import BACK, SOFTNESS, shade

MARGIN = 0.92  # the part of the image that the scene fills
OVERSAMPLING = 2


@dataclass(frozen=True)
class Drawing:
    """What each pixel shows, before it has a color."""

    size: Size
    pixel: Array  # [P]
    vertex: Array  # [P, K], the vertices that color it
    weight: Array  # [P, K]
    light: Array  # [P]

    def paint(self, color: Array, *, soft: bool = False) -> Array:
        """An image ``[H, W, 4]`` in [0, 1] with the colors ``[N, 3]`` of the vertices."""
        light = self.light + SOFTNESS * (1.0 - self.light) if soft else self.light
        seen = np.einsum("pk,pkc->pc", self.weight, color[self.vertex] / 255.0)
        width, height = self.size
        fine = np.zeros((width * height, 4))
        fine[self.pixel, :3] = np.minimum(seen * light[:, None], 1.0)
        fine[self.pixel, 3] = 1.0
        n = OVERSAMPLING
        return fine.reshape(height // n, n, width // n, n, 4).mean(axis=(1, 3))


def _on_screen(panel: Panel, camera: Camera, size: Size) -> tuple[Array, Array, float]:
    """Vertices in pixels ``[N, 2]``, their inverse distances ``[N]``, pixels at distance 1."""
    plane, depth = project(panel.pos, camera.rotation)
    center = np.array(size) / 2
    scale = MARGIN * float((center / camera.half).min())
    screen = (plane - camera.center) * [scale, -scale] + center
    return screen, 1.0 / depth, scale


def _face_light(panel: Panel, camera: Camera, screen: Array, face: Array) -> Array:
    corner = panel.pos[face]
    normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    light = shade(normal / np.where(length > 0, length, 1.0), camera.rotation)
    side = screen[face[:, 1:]] - screen[face[:, :1]]
    # Rows count downwards: a triangle whose front is seen turns clockwise in pixels.
    is_back = side[:, 0, 0] * side[:, 1, 1] > side[:, 0, 1] * side[:, 1, 0]
    return np.where(is_back, BACK * light, light)


def draw(panel: Panel, camera: Camera, size: Size) -> Drawing:
    """Find out what each pixel of an image shows."""
    size = (OVERSAMPLING * size[0], OVERSAMPLING * size[1])
    screen, inverse, scale = _on_screen(panel, camera, size)
    if panel.face is None:
        assert panel.normal is not None  # a cloud in its frame has them
        radius = np.maximum(panel.radius * scale * inverse, OVERSAMPLING)
        pixel, point = draw_points(screen, inverse, radius, size)
        light = shade(panel.normal, camera.rotation)[point]
        return Drawing(size, pixel, point[:, None], np.ones((len(point), 1)), light)
    pixel, triangle, weight = draw_triangles(screen, inverse, panel.face, size)
    light = _face_light(panel, camera, screen, panel.face)[triangle]
    return Drawing(size, pixel, panel.face[triangle], weight, light)
