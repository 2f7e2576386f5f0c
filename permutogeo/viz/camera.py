"""Camera and lights that the WebGL page and the PNG renderer share.

The scene is scaled to fit the unit sphere about the origin. In view coordinates x points right, y
up and z toward the camera, which stands at ``z = DISTANCE``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from permutogeo.typing import Array
from permutogeo.viz.shapes import Shape

DISTANCE = 4.0
DEFAULT_VIEW = (30.0, 20.0)
# The part of the area by which an open surface faces one way more than the other.
OPENNESS = 0.1
# An elongated object seen along its axis must still fit when it is turned.
MIN_HALF_EXTENT = 0.45 / DISTANCE
# Rows are the directions that point right, up and to the camera when it looks from the front.
FRONT = {
    "x": ((0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, -1.0)),
    "y": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "z": ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, -1.0, 0.0)),
}


@dataclass(frozen=True)
class Camera:
    """View rotation, and the rectangle of the image plane that holds the scene."""

    rotation: Array  # [3, 3], to view coordinates
    center: Array  # [2], of the rectangle
    half: Array  # [2], half its width and height


@dataclass(frozen=True)
class Light:
    """Directional light: a unit vector in view coordinates, and an intensity."""

    direction: tuple[float, float, float]
    intensity: float


AMBIENT = 0.36
KEY_LIGHT = Light((-0.40, 0.60, 0.693), 0.64)
FILL_LIGHT = Light((0.80, -0.10, 0.592), 0.30)
# Back faces are darker, so that a hole does not look like a dent.
BACK_FACE = 0.62
# Vertex colors carry data: shading is reduced so that they can be read.
COLOR_SOFTNESS = 0.4


def project(pos: Array, rotation: Array) -> tuple[Array, Array]:
    """Return positions on the image plane at distance 1 ``[N, 2]``, and depths ``[N]``."""
    view = pos @ rotation.T
    depth = DISTANCE - view[:, 2]
    return view[:, :2] / depth[:, None], depth


def shade(normal: Array, rotation: Array) -> Array:
    """Return the Lambertian shading ``[N]`` of unit normals ``[N, 3]`` turned to the camera."""
    view = normal @ rotation.T
    view = np.where(view[:, 2:] < 0, -view, view)
    key, fill = (
        light.intensity * np.maximum(view @ light.direction, 0.0)
        for light in (KEY_LIGHT, FILL_LIGHT)
    )
    return AMBIENT + key + fill


def _default_azimuth(shape: Shape, front: Array) -> float:
    """Return the default azimuth, or for an open surface one that sees its front."""
    if shape.face is None:
        return DEFAULT_VIEW[0]
    corner = shape.pos[shape.face] @ front.T
    area = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    total = np.linalg.norm(area, axis=1).sum()
    x, _, z = area.sum(axis=0)  # 0 for a closed surface
    if math.hypot(x, z) <= OPENNESS * total:
        return DEFAULT_VIEW[0]
    return math.degrees(math.atan2(x, z)) + DEFAULT_VIEW[0] / 2


def _rotation(front: Array, view: tuple[float, float]) -> Array:
    azimuth, elevation = (math.radians(angle) for angle in view)
    c, s = math.cos(azimuth), math.sin(azimuth)
    turn = np.array([[c, 0.0, -s], [0.0, 1.0, 0.0], [s, 0.0, c]])
    c, s = math.cos(elevation), math.sin(elevation)
    tilt = np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])
    return tilt @ turn @ front


def make_camera(
    shapes: Sequence[Shape], up: str, view: tuple[float, float] | None, caller: str
) -> Camera:
    """Return a camera that sees all shapes, from azimuth and elevation in degrees."""
    if up not in FRONT:
        raise ValueError(f"{caller}: Expected 'up' in x, y, z (got {up!r})")
    front = np.array(FRONT[up])
    if view is None:
        view = (_default_azimuth(shapes[-1], front), DEFAULT_VIEW[1])
    if len(view) != 2 or not all(math.isfinite(angle) for angle in view):
        raise ValueError(f"{caller}: Expected 'view' as two angles in degrees (got {view!r})")
    rotation = _rotation(front, view)
    planes = [project(shape.pos, rotation)[0] for shape in shapes]
    low = np.min([plane.min(axis=0) for plane in planes], axis=0)
    high = np.max([plane.max(axis=0) for plane in planes], axis=0)
    margin = max(shape.radius for shape in shapes) / (DISTANCE - 1.0)  # of the nearest disc
    half = np.maximum((high - low) / 2 + margin, MIN_HALF_EXTENT)
    return Camera(rotation, (low + high) / 2, half)
