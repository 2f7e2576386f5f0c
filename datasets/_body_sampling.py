"""Random shapes and poses for a :class:`BodyModel` with the names of MakeHuman.

Targets and bones of other names are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from permutogeo.data._fields import Array
from permutogeo.datasets._body_model import BodyModel
from permutogeo.datasets._patchwork import unit_normal
from permutogeo.transforms._mesh import vertex_normals

Random = np.random.Generator

# Endings of targets that undo each other.
_OPPOSITES = {"incr": "decr", "out": "in", "up": "down", "forward": "backward"}
_ETHNIC = ("african", "asian", "caucasian")
_HAND = [f"finger{k}-{j}" for k in range(2, 6) for j in (1, 2, 3)]


def _between(value: float, low: str, middle: str, high: str) -> dict[str, float]:
    """Shares of three words that sum to 1, by a value in [-1, 1]."""
    return {low: max(-value, 0), middle: 1 - abs(value), high: max(value, 0)}


def random_shape(model: BodyModel, rng: Random) -> dict[str, float]:
    """The weight of each target: gender, age, origin, muscle, weight, height, and details."""
    male = float(np.clip(rng.normal(rng.integers(2), 0.15), 0, 1))
    old = float(rng.beta(1, 2))
    share = {"male": male, "female": 1 - male, "old": old, "young": 1 - old, "universal": 1.0}
    share |= dict(zip(_ETHNIC, rng.dirichlet([0.6] * 3).tolist(), strict=True))
    muscle, fat = np.clip(rng.normal(0, 0.45, 2), -1, 1)
    share |= _between(muscle, "minmuscle", "averagemuscle", "maxmuscle")
    share |= _between(fat, "minweight", "averageweight", "maxweight")
    height = float(np.clip(rng.normal(0, 0.12), -0.3, 0.3))
    share |= _between(height, "minheight", "", "maxheight")
    share |= _between(float(rng.uniform(-1, 1)), "uncommonproportions", "", "idealproportions")
    weights = {name: _macro(name, share) for name in model.targets}
    for name, amount in _details(model, rng).items():
        gender = share["female" if "-fem-" in name else "male"] if "bodyshapes" in name else 1.0
        weights[name] = amount * gender
    return weights


def _macro(name: str, share: dict[str, float]) -> float:
    """The product of the shares that a target's name lists; 0 for another kind of name."""
    words = name.split("-")
    if not all(word in share for word in words):
        return 0.0
    if words[0] in ("male", "female"):  # heights and proportions exist for the average body alone
        words = [words[0], words[-1]]
    return float(np.prod([share[word] for word in words]))


def _details(model: BodyModel, rng: Random) -> dict[str, float]:
    """Small weights for a few local targets, alike on both sides of the body."""
    weights = {}
    for name in model.targets:
        stem, _, ending = name.rpartition("-")
        if ending in _OPPOSITES and not stem.startswith("r-"):
            amount = rng.uniform(-0.5, 0.5) if rng.random() < 0.2 else 0.0
            end = ending if amount > 0 else _OPPOSITES[ending]
            for side in ("l-", "r-") if stem.startswith("l-") else ("",):
                weights[f"{side}{stem.removeprefix('l-')}-{end}"] = abs(amount)
    kinds = [name for name in model.targets if name.startswith("bodyshapes-")]
    for name in rng.choice(kinds, 4, replace=False).tolist() if len(kinds) > 3 else []:
        weights[name] = rng.uniform(0, 0.6)
    return {name: weight for name, weight in weights.items() if name in model.targets}


@dataclass(frozen=True)
class Motion:
    """A turn shared by some bones.

    Args:
        bones: Their names; those of limbs without ``.L`` and ``.R``.
        axis: ``"x"`` (to the left), ``"y"`` (up) or ``"z"`` (forward) of the resting body;
            ``"along"`` the bone; ``"hinge"``, which bends the bone farther against the one before
            it; or ``"curl"``, which closes the hand.
        low: The least angle in degrees.
        usual: The likeliest angle.
        high: The largest angle.
        mirrored: Whether there are two, which on the right go the other way round.
    """

    bones: tuple[str, ...]
    axis: str
    low: float
    usual: float
    high: float
    mirrored: bool = True


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


def random_pose(model: BodyModel, rng: Random) -> Array:
    """The rotation of each bone against its parent, within the ranges of joints, ``[B, 3, 3]``."""
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
    """The axis of a motion in the resting body, of length 1, or 0 where bones do not give one."""
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
    """From the start of a bone to that of the first bone that hangs from it."""
    following = np.flatnonzero(model.parent == bone)
    return model.joint[following[0]] - model.joint[bone] if len(following) else np.zeros(3)


def _unit(vector: Array) -> Array:
    return vector / max(float(np.linalg.norm(vector)), 1e-12)


def random_body(model: BodyModel, rng: Random, tries: int = 20) -> Array:
    """The vertices of a body of random shape in a random pose, ``[V, 3]``.

    Poses that fold or stretch the skin, or drive a limb into the body, are drawn again; where all
    are, the body stands at rest.
    """
    vertices, joint = model.shaped(random_shape(model, rng))
    for _ in range(tries):
        posed = model.posed(vertices, joint, random_pose(model, rng))
        if is_sound(model, vertices, posed):
            return posed
    return vertices


def is_sound(model: BodyModel, rest: Array, posed: Array) -> bool:
    """Whether a pose stretches no edge fivefold, folds few, and lets no limb enter the body."""
    ends = model.edges.ends
    before, after = (np.linalg.norm(np.diff(x[ends], axis=1)[:, 0], axis=1) for x in (rest, posed))
    if (after > 5 * before).any():
        return False
    bend_before, bend_after = (_bends(model, x) for x in (rest, posed))
    folds = np.count_nonzero((bend_after < -0.2) & (bend_before > 0.3))
    return folds <= len(ends) / 1500 and penetrations(model, posed) <= 3


def _bends(model: BodyModel, vertices: Array) -> Array:
    """The cosine between the normals of the two faces of each edge, ``[E]``."""
    normal = unit_normal(vertices[model.face])[model.edges.faces]
    return (normal[:, 0] * normal[:, 1]).sum(axis=1)


# What may run into what: a hand or forearm, and a shank or foot, into all that it does not hang on.
_REST = ("spine", "breast", "neck", "head", "pelvis", "jaw", "upperleg", "lowerleg", "foot", "toe")
_LIMBS = (
    (("lowerarm", "wrist", "finger", "metacarpal"), _REST, ("upperarm", "lowerarm", "wrist", "finger")),
    (("lowerleg", "foot", "toe"), _REST[:6], ("upperleg", "lowerleg", "foot", "toe")),
)


def penetrations(model: BodyModel, vertices: Array, depth: float = 0.006) -> int:
    """How many vertices of hands, forearms, shanks and feet lie in another part of the body.

    A vertex does if it is farther than ``depth`` behind the nearest vertex of another part.
    """
    normal = _vertex_normals(vertices, model.face)
    names = np.array(list(model.bones))
    owner = names[model.skin_bone[np.arange(len(vertices)), model.skin_weight.argmax(axis=1)]]
    count = 0
    for side, other in ((".L", ".R"), (".R", ".L")):
        for part, rest, limb in _LIMBS:
            mine = vertices[_of(owner, part, side)]
            theirs = np.flatnonzero(_of(owner, rest, "") | _of(owner, limb, other))
            if len(mine) and len(theirs):
                distance, nearest = cKDTree(vertices[theirs]).query(mine, distance_upper_bound=0.1)
                close = np.isfinite(distance)
                nearest = theirs[nearest[close]]
                behind = ((vertices[nearest] - mine[close]) * normal[nearest]).sum(axis=1)
                count += int((behind > depth).sum())
    return count


def _of(owner: Array, prefixes: tuple[str, ...], side: str) -> Array:
    """Which vertices follow a bone whose name begins and ends so."""
    kinds = {name: name.startswith(prefixes) and name.endswith(side) for name in set(owner.tolist())}
    return np.array([kinds[name] for name in owner.tolist()])


def _vertex_normals(vertices: Array, face: Array) -> Array:
    return vertex_normals(torch.from_numpy(vertices), torch.from_numpy(face.T.copy())).numpy()
