"""Random poses of a :class:`BodyModel` with MakeHuman's bone names; other bones stay at rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from permutogeo.datasets.synthetic.body_model import BodyModel
from permutogeo.typing import Array


@dataclass(frozen=True)
class Motion:
    """A rotation distributed over a chain of bones.

    Args:
        bones: Bone names, without the suffixes ``.L`` and ``.R``.
        axis: ``"x"`` (left), ``"y"`` (up) or ``"z"`` (forward) of the rest pose; ``"along"`` the
            bone; ``"hinge"``, the flexion axis against the parent bone; or ``"curl"``, which
            closes the hand.
        low: Smallest angle in degrees.
        usual: Mode of the triangular distribution.
        high: Largest angle.
        mirrored: Whether the motion exists on both sides, mirrored on the right.
    """

    bones: tuple[str, ...]
    axis: str
    low: float
    usual: float
    high: float
    mirrored: bool = True


_HAND = [f"finger{k}-{j}" for k in range(2, 6) for j in (1, 2, 3)]
_SPINE = ("spine05", "spine04", "spine03", "spine02", "spine01")
_NECK = ("neck01", "neck02", "neck03", "head")
_SHOULDER = ("clavicle", "shoulder01", *["upperarm01"] * 6)
MOTIONS = (
    Motion(_SPINE, "x", -15, 5, 40, mirrored=False),
    Motion(_SPINE, "y", -30, 0, 30, mirrored=False),
    Motion(_SPINE, "z", -18, 0, 18, mirrored=False),
    Motion(_NECK, "x", -20, 0, 25, mirrored=False),
    Motion(_NECK, "y", -45, 0, 45, mirrored=False),
    Motion(_NECK, "z", -15, 0, 15, mirrored=False),
    Motion(_SHOULDER, "z", -30, -5, 80),
    Motion(_SHOULDER, "y", -55, -5, 25),
    Motion(("upperarm01", "upperarm02"), "along", -35, 0, 35),
    Motion(("lowerarm01",), "hinge", -45, -10, 75),
    Motion(("lowerarm02", "wrist"), "along", -50, 0, 50),
    Motion(("wrist",), "curl", -30, 0, 30),
    Motion(("upperleg01",), "x", -75, -5, 20),
    Motion(("upperleg01",), "z", -5, 5, 30),
    Motion(("upperleg01", "upperleg02"), "along", -15, 0, 15),
    Motion(("lowerleg01",), "x", 0, 10, 100),
    Motion(("foot",), "x", -20, 0, 20),
    Motion(("foot",), "z", -8, 0, 8),
    *(Motion((bone,), "curl", -5, 8, 40) for bone in _HAND),
    Motion(("finger1-1", "finger1-2"), "curl", -10, 0, 15),
)


def random_pose(model: BodyModel, rng: np.random.Generator) -> Array:
    """Return a random rotation of each bone within its joint limits, ``[B, 3, 3]``."""
    rotation = np.tile(np.eye(3), (len(model.joint), 1, 1))
    for motion in MOTIONS:
        for side in (".L", ".R") if motion.mirrored else ("",):
            angle = np.radians(rng.triangular(motion.low, motion.usual, motion.high))
            names = [name + side for name in motion.bones]
            if not all(name in model.bones for name in names):
                continue
            mirror = -1 if side == ".R" and motion.axis in ("y", "z") else 1
            for name in names:
                axis = mirror * _axis(model, model.bones[name], motion.axis, side)
                turn = Rotation.from_rotvec(angle / len(names) * axis).as_matrix()
                bone = model.bones[name]
                rotation[bone] = rotation[bone] @ turn
    return rotation


def _axis(model: BodyModel, bone: int, kind: str, side: str) -> Array:
    """Return the unit axis of a motion in the rest pose, or 0 if the bones define none."""
    if kind in ("x", "y", "z"):
        return np.eye(3)["xyz".index(kind)]
    if kind == "along":
        return _unit(_direction(model, bone))
    if kind == "hinge":
        return _unit(np.cross(_direction(model, int(model.parent[bone])), _direction(model, bone)))
    total = np.zeros(3)
    for finger in range(2, 6):
        joints = [model.bones.get(f"finger{finger}-{k}{side}", 0) for k in (1, 2, 3)]
        first, second, third = model.joint[joints]
        total += np.cross(second - first, third - second)
    return _unit(total)


def _direction(model: BodyModel, bone: int) -> Array:
    """Return the vector from a joint to that of its first child."""
    following = np.flatnonzero(model.parent == bone)
    return model.joint[following[0]] - model.joint[bone] if len(following) else np.zeros(3)


def _unit(vector: Array) -> Array:
    return vector / max(float(np.linalg.norm(vector)), 1e-12)
