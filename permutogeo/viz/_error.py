"""How far each point lies from a reference, in units of the reference's mean edge."""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial import cKDTree

from permutogeo.data._fields import Array
from permutogeo.data._open3d import load_open3d

# The scale ends where all but this part of the points lie: a few outliers must not pale the rest.
BEYOND_SCALE = 0.01
ROUND = (1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10)


def mean_spacing(pos: Array) -> float:
    """The mean distance of a point to its nearest neighbor elsewhere."""
    if len(pos) < 2:
        return 0.0
    distance = cKDTree(pos).query(pos, k=2)[0][:, 1]
    return float(distance[distance > 0].mean()) if (distance > 0).any() else 0.0


def surface_distance(pos: Array, target: Array, face: Array) -> Array:
    """The distance of each point to the nearest place on the triangles of ``target``."""
    open3d = load_open3d()
    tensor = open3d.core.Tensor
    center = target.mean(axis=0)  # single precision is for what is left
    scene = open3d.t.geometry.RaycastingScene()
    scene.add_triangles(
        tensor((target - center).astype(np.float32)), tensor(face.astype(np.uint32))
    )
    return scene.compute_distance(tensor((pos - center).astype(np.float32))).numpy()


def same_faces(face: Array | None, other: Array | None) -> bool:
    """Whether two meshes have the same triangles, or neither has any."""
    if face is None or other is None:
        return face is other
    return face is other or np.array_equal(face, other)


def distances(pos: Array, face: Array | None, target: Array, target_face: Array | None) -> Array:
    """Distance of each vertex to its own place in ``target``, or to the nearest where it has none.

    Vertices belong together where both have the same number of them and the same faces.
    """
    if len(pos) == len(target) and same_faces(face, target_face):
        return np.linalg.norm(pos - target, axis=1)
    if target_face is None:
        return cKDTree(target).query(pos)[0]
    return surface_distance(pos, target, target_face)


def round_up(value: float) -> float:
    """The next number whose half is short to write too, or 1 for 0."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in ROUND if value <= step * power * (1 + 1e-9))


def scale_end(errors: list[Array]) -> float:
    """A round number that nearly all errors of the worst mesh stay below."""
    return round_up(max((float(np.quantile(e, 1 - BEYOND_SCALE)) for e in errors), default=0.0))
