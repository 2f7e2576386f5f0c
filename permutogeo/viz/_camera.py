"""The view that all panels share: a perspective camera before the unit sphere.

The scene is scaled to fit the unit sphere about the origin. In view coordinates x points right, y
up and z to the camera, which stands at ``z = DISTANCE``. The page and the picture use the same
view, so that one shows what the other does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from permutogeo.data._fields import Array
from permutogeo.viz._panels import Panel

DISTANCE = 4.0
USUAL_VIEW = (30.0, 20.0)
OPENNESS = 0.1  # of the area, that faces one way more than the other
# An object seen along its axis must still fit when it is turned.
LEAST_HALF = 0.45 / DISTANCE
# Rows are the directions that point right, up and to the camera when it looks from the front.
FRONT = {
    "x": ((0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, -1.0)),
    "y": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "z": ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, -1.0, 0.0)),
}


@dataclass(frozen=True)
class Camera:
    """Where the camera looks from, and the part of the image plane that holds the scene."""

    rotation: Array  # [3, 3], to view coordinates
    center: Array  # [2], of the scene on the image plane
    half: Array  # [2], half of its width and height there


def project(pos: Array, rotation: Array) -> tuple[Array, Array]:
    """Places on the image plane at distance 1 ``[N, 2]``, and distances ``[N]``."""
    view = pos @ rotation.T
    depth = DISTANCE - view[:, 2]
    return view[:, :2] / depth[:, None], depth


def _facing(panel: Panel, front: Array) -> float:
    """The azimuth to look from: a little beside the side that an open surface turns outwards."""
    if panel.face is None:
        return USUAL_VIEW[0]
    corner = panel.pos[panel.face] @ front.T
    outward = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    total = np.linalg.norm(outward, axis=1).sum()
    x, _, z = outward.sum(axis=0)  # nothing for a closed surface
    if math.hypot(x, z) <= OPENNESS * total:
        return USUAL_VIEW[0]
    return math.degrees(math.atan2(x, z)) + USUAL_VIEW[0] / 2


def _rotation(front: Array, view: tuple[float, float]) -> Array:
    azimuth, elevation = (math.radians(angle) for angle in view)
    c, s = math.cos(azimuth), math.sin(azimuth)
    turn = np.array([[c, 0.0, -s], [0.0, 1.0, 0.0], [s, 0.0, c]])
    c, s = math.cos(elevation), math.sin(elevation)
    tilt = np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])
    return tilt @ turn @ front


def look(panels: Sequence[Panel], up: str, view: tuple[float, float] | None, caller: str) -> Camera:
    """The camera that has all panels in view, from azimuth and elevation in degrees."""
    if up not in FRONT:
        raise ValueError(f"{caller}: Expected 'up' in x, y, z (got {up!r})")
    front = np.array(FRONT[up])
    if view is None:
        view = (_facing(panels[-1], front), USUAL_VIEW[1])
    if len(view) != 2 or not all(math.isfinite(angle) for angle in view):
        raise ValueError(f"{caller}: Expected 'view' as two angles in degrees (got {view!r})")
    rotation = _rotation(front, view)
    planes = [project(panel.pos, rotation)[0] for panel in panels]
    low = np.min([plane.min(axis=0) for plane in planes], axis=0)
    high = np.max([plane.max(axis=0) for plane in planes], axis=0)
    reach = max(panel.radius for panel in panels) / (DISTANCE - 1.0)  # of a disc in the front
    half = np.maximum((high - low) / 2 + reach, LEAST_HALF)
    return Camera(rotation, (low + high) / 2, half)
