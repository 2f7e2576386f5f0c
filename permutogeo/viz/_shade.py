"""Light on matte clay, the same on the page and in the picture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permutogeo.data._fields import Array


@dataclass(frozen=True)
class Light:
    """A direction in view coordinates, of length 1, and its strength."""

    direction: tuple[float, float, float]
    strength: float


AMBIENT = 0.36
KEY = Light((-0.40, 0.60, 0.693), 0.64)
FILL = Light((0.80, -0.10, 0.592), 0.30)
# The inside of an open mesh is darker, so that a hole is not taken for a dent.
BACK = 0.62
# Under colors that have a meaning, light and shadow are nearer to each other.
SOFTNESS = 0.4


def shade(normal: Array, rotation: Array) -> Array:
    """Brightness ``[N]`` of surfaces with unit normals ``[N, 3]`` that face the camera."""
    view = normal @ rotation.T
    view = np.where(view[:, 2:] < 0, -view, view)
    key, fill = (light.strength * np.maximum(view @ light.direction, 0.0) for light in (KEY, FILL))
    return AMBIENT + key + fill
