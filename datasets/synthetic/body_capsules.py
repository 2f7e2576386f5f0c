"""Tapered capsules of a procedural body.

Lengths are relative to the body height. The rest pose stands upright along y and faces z, with its
left side at positive x.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from permutogeo.typing import Array

Random = np.random.Generator
Point = tuple[float, float, float]
Capsule = tuple[Array, Array, tuple[float, float]]


@dataclass(frozen=True)
class Frame:
    """Coordinate frame of a joint."""

    origin: Array
    axes: Array

    def at(self, x: float, y: float, z: float) -> Array:
        return self.origin + self.axes @ np.array([x, y, z])

    def child(self, place: Point, order: str, *degrees: float) -> Frame:
        """Return the frame of a child joint at ``place``, rotated by intrinsic Euler angles."""
        angles = degrees if len(degrees) > 1 else degrees[0]  # one in a tuple may give a stack
        turn = Rotation.from_euler(order.upper(), angles, degrees=True).as_matrix()
        return Frame(self.at(*place), self.axes @ turn)

    def capsule(self, start: Point, end: Point, first: float, last: float | None = None) -> Capsule:
        """Return a tapered capsule between two points, with the radii at both."""
        return self.at(*start), self.at(*end), (first, first if last is None else last)

    def bar(self, half: float, y: float, z: float, radius: float) -> Capsule:
        """Return a capsule along x."""
        return self.capsule((-half, y, z), (half, y, z), radius)

    def ball(self, place: Point, radius: float) -> Capsule:
        return self.capsule(place, place, radius)


def random_capsules(rng: Random) -> tuple[Array, Array, Array]:
    """Return starts ``[K, 3]``, ends ``[K, 3]`` and radii ``[K, 2]`` of a random body in meters."""
    height = rng.uniform(1.5, 1.95)
    stout = float(np.exp(rng.normal(0, 0.12)))
    female = float(rng.random())
    pelvis = Frame(np.array([0, 0.53, 0]), np.eye(3))
    bend, twist, lean = rng.triangular([-6, -14, -8], [2, 0, 0], [16, 14, 8])
    waist = pelvis.child((0, 0.08, 0), "xyz", bend, twist, lean)
    chest = waist.child((0, 0.1, 0), "xyz", bend, twist, lean)
    parts = _torso(pelvis, waist, chest, stout, female) + _head(chest, rng, female)
    legs, arms = rng.normal(1, 0.04, 2)
    for side in (1, -1):
        parts += _leg(pelvis, rng, side, stout, legs)
        parts += _arm(chest, rng, side, stout, arms)
    start, end, radius = (np.array(column) for column in zip(*parts, strict=True))
    return height * start, height * end, height * radius


def _torso(pelvis: Frame, waist: Frame, chest: Frame, stout: float, female: float) -> list[Capsule]:
    slim = stout**0.6 * (1 - 0.08 * female)
    hip, middle, breast = (0.044 + 0.01 * female) * stout, 0.034 * stout, 0.018 + 0.018 * female
    parts = [
        waist.ball((0, -0.012, 0.016), 0.046 * stout**2),
        chest.bar(0.05, 0.06, -0.002, 0.042 * slim),
        chest.capsule((0, -0.03, 0.006), (0, 0.05, 0.004), 0.056 * slim, 0.05 * slim),
    ]
    for side in (1, -1):
        low, high = pelvis.at(hip * side, 0, 0), waist.at(middle * side, 0, 0)
        top = chest.at(0.046 * side, 0, 0.002)
        shoulder = chest.at((0.082 - 0.008 * female) * side, 0.062, -0.004)
        parts += [
            pelvis.ball((0.042 * side, -0.025, -0.026), 0.05 * stout),
            (low, high, (0.06 * stout, 0.053 * stout)),
            (high, top, (0.053 * stout, 0.06 * slim)),
            (top, shoulder, (0.06 * slim, 0.04)),
            chest.ball((0.043 * side, -0.004, 0.034), breast),
            chest.capsule((0.08 * side, 0.075, 0), (0, 0.13, -0.008), 0.022, 0.026),
        ]
    return parts


def _head(chest: Frame, rng: Random, female: float) -> list[Capsule]:
    nod, turn, tilt = rng.triangular([-8, -20, -6], [0, 0, 0], [8, 20, 6])
    neck = chest.child((0, 0.1, 0), "xyz", nod, turn, tilt)
    head = neck.child((0, 0.06, 0.01), "xyz", nod, turn, tilt)
    size = rng.normal(1, 0.05)
    parts = [
        neck.capsule((0, -0.03, -0.004), (0, 0.075, 0.002), 0.032 - 0.004 * female),
        head.capsule((0, 0.066, -0.018), (0, 0.07, 0.012), 0.05 * size),
        head.capsule((0, 0.035, 0.012), (0, 0.014, 0.04), 0.042 * size, 0.02),
        head.capsule((0, 0.056, 0.056), (0, 0.04, 0.067), 0.006, 0.01 * size),
    ]
    return parts + [head.ball((0.05 * side, 0.045, -0.008), 0.011) for side in (1, -1)]


def _leg(pelvis: Frame, rng: Random, side: int, stout: float, length: float) -> list[Capsule]:
    out, lift, turn = rng.triangular([3, -20, -12], [9, 6, 0], [26, 60, 12])
    bend, step = rng.triangular([2, -15], [12, 0], [75, 15])
    thigh, shank = 0.235 * length, 0.225 * length
    hip = pelvis.child((0.056 * side, -0.015, 0), "zxy", side * out, -lift, side * turn)
    knee = hip.child((0, -thigh, 0), "x", bend)
    ankle = knee.child((0, -shank, 0), "x", step)
    toe = 0.012 * side
    return [
        hip.capsule((0, -0.01, 0), (0, -thigh, 0), 0.056 * stout, 0.035),
        hip.capsule((0, -0.04, 0.007), (0, -0.15, 0.006), 0.046 * stout, 0.038 * stout**0.5),
        knee.capsule((0, 0, 0.002), (0, -shank, 0), 0.034, 0.021),
        knee.capsule((0, -0.035, -0.01), (0, -0.11, -0.008), 0.032 * stout**0.5, 0.024),
        ankle.capsule((0, -0.028, -0.016), (toe / 2, -0.036, 0.06), 0.021, 0.018),
        ankle.capsule((0, -0.005, 0.004), (toe / 2, -0.03, 0.06), 0.022, 0.017),
        ankle.capsule((toe - 0.013, -0.04, 0.082), (toe + 0.013, -0.04, 0.086), 0.013),
    ]


def _arm(chest: Frame, rng: Random, side: int, stout: float, length: float) -> list[Capsule]:
    out, lift, turn = rng.triangular([16, -30, -30], [35, 10, 0], [105, 60, 30])
    bend, roll, nod, sway = rng.triangular([4, -70, -25, -12], [22, 0, 0, 0], [95, 70, 25, 12])
    upper, lower = 0.165 * length, 0.14 * length
    shoulder = chest.child((0.103 * side, 0.066, 0), "zxy", side * out, -lift, side * turn)
    elbow = shoulder.child((0, -upper, 0), "xy", -bend, side * roll)
    wrist = elbow.child((0, -lower, 0), "xz", nod, sway)
    strong = stout**0.5
    return [
        shoulder.capsule((0, 0, 0), (0, -upper, 0), 0.034 * strong, 0.024),
        shoulder.capsule((0, -0.03, 0.004), (0, -0.11, 0.004), 0.029 * strong, 0.025 * strong),
        elbow.capsule((0, 0, 0), (0, -lower, 0), 0.025, 0.015),
        elbow.capsule((0, -0.015, 0.002), (0, -0.075, 0.002), 0.025 * strong, 0.019),
        wrist.capsule((-0.011, -0.016, 0), (-0.012, -0.05, 0), 0.013),
        wrist.capsule((0.011, -0.016, 0), (0.012, -0.05, 0), 0.013),
        wrist.capsule((-0.01, -0.05, 0), (-0.008, -0.088, 0.008), 0.012, 0.009),
        wrist.capsule((0.01, -0.05, 0), (0.008, -0.092, 0.008), 0.012, 0.009),
        wrist.capsule((-0.012 * side, -0.02, 0.008), (-0.03 * side, -0.052, 0.016), 0.012, 0.009),
    ]
