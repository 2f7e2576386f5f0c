"""Random bodies of a :class:`BodyModel` with MakeHuman's names; invalid poses are rejected."""

from __future__ import annotations

import numpy as np
import torch
from scipy.spatial import cKDTree

from permutogeo.data.geometry import vertex_normals
from permutogeo.datasets.synthetic.body_model import BodyModel
from permutogeo.datasets.synthetic.body_poses import random_pose
from permutogeo.datasets.synthetic.patch_mesh import unit_normals
from permutogeo.typing import Array

Random = np.random.Generator

# Suffixes of opposite blend shapes.
_OPPOSITES = {"incr": "decr", "out": "in", "up": "down", "forward": "backward"}
_ETHNIC = ("african", "asian", "caucasian")


def random_body(model: BodyModel, rng: Random, tries: int = 20) -> Array:
    """Return the vertices of a body of random shape in a random pose, ``[V, 3]``.

    Poses that fold or stretch the skin or intersect the body are rejected; after ``tries``
    rejections the body keeps its rest pose.
    """
    vertices, joint = model.apply_shape(random_shape(model, rng))
    for _ in range(tries):
        posed = model.apply_pose(vertices, joint, random_pose(model, rng))
        if is_valid_pose(model, vertices, posed):
            return posed
    return vertices


def is_valid_pose(model: BodyModel, rest: Array, posed: Array) -> bool:
    """Return whether a pose stretches no edge fivefold, folds few, and does not self-intersect."""
    ends = model.edges.ends
    before, after = (np.linalg.norm(np.diff(x[ends], axis=1)[:, 0], axis=1) for x in (rest, posed))
    if (after > 5 * before).any():
        return False
    bend_before, bend_after = (_dihedral_cosines(model, x) for x in (rest, posed))
    folds = int(((bend_after < -0.2) & (bend_before > 0.3)).sum())
    return folds <= len(ends) / 1500 and count_penetrations(model, posed) <= 3


def _dihedral_cosines(model: BodyModel, vertices: Array) -> Array:
    """Return the cosine between the normals of the two faces of each edge, ``[E]``."""
    normal = unit_normals(vertices[model.face])[model.edges.faces]
    return (normal[:, 0] * normal[:, 1]).sum(axis=1)


# Hand and forearm, shank and foot may intersect all parts that they are not attached to.
_REST = ("spine", "breast", "neck", "head", "pelvis", "jaw", "upperleg", "lowerleg", "foot", "toe")
_LIMBS = (
    (
        ("lowerarm", "wrist", "finger", "metacarpal"),
        _REST,
        ("upperarm", "lowerarm", "wrist", "finger"),
    ),
    (("lowerleg", "foot", "toe"), _REST[:6], ("upperleg", "lowerleg", "foot", "toe")),
)


def count_penetrations(model: BodyModel, vertices: Array, depth: float = 0.006) -> int:
    """Count the vertices of hands, forearms, shanks and feet inside another part of the body.

    A vertex is inside if it lies more than ``depth`` behind the nearest vertex of another part.
    """
    normal = _vertex_normals(vertices, model.face)
    names = np.array(list(model.bones))
    owner = names[model.skin_bone[np.arange(len(vertices)), model.skin_weight.argmax(axis=1)]]
    count = 0
    for side, other in ((".L", ".R"), (".R", ".L")):
        for part, rest, limb in _LIMBS:
            mine = vertices[_follows(owner, part, side)]
            theirs = np.flatnonzero(_follows(owner, rest, "") | _follows(owner, limb, other))
            if len(mine) and len(theirs):
                distance, nearest = cKDTree(vertices[theirs]).query(mine, distance_upper_bound=0.1)
                close = np.isfinite(distance)
                nearest = theirs[nearest[close]]
                behind = ((vertices[nearest] - mine[close]) * normal[nearest]).sum(axis=1)
                count += int((behind > depth).sum())
    return count


def _follows(owner: Array, prefixes: tuple[str, ...], side: str) -> Array:
    """Return which vertices follow a bone with one of the prefixes and the suffix ``side``."""
    kinds = {
        name: name.startswith(prefixes) and name.endswith(side) for name in set(owner.tolist())
    }
    return np.array([kinds[name] for name in owner.tolist()])


def _vertex_normals(vertices: Array, face: Array) -> Array:
    return vertex_normals(torch.from_numpy(vertices), torch.from_numpy(face.T.copy())).numpy()


def _interpolate(value: float, low: str, middle: str, high: str) -> dict[str, float]:
    """Return weights of three words that sum to 1, by a value in [-1, 1]."""
    return {low: max(-value, 0), middle: 1 - abs(value), high: max(value, 0)}


def random_shape(model: BodyModel, rng: Random) -> dict[str, float]:
    """Return a random weight of each blend shape: gender, age, ethnicity, build, details."""
    male = float(np.clip(rng.normal(rng.integers(2), 0.15), 0, 1))
    old = float(rng.beta(1, 2))
    weight_of = {"male": male, "female": 1 - male, "old": old, "young": 1 - old, "universal": 1.0}
    weight_of |= dict(zip(_ETHNIC, rng.dirichlet([0.6] * 3).tolist(), strict=True))
    muscle, fat = np.clip(rng.normal(0, 0.45, 2), -1, 1)
    weight_of |= _interpolate(muscle, "minmuscle", "averagemuscle", "maxmuscle")
    weight_of |= _interpolate(fat, "minweight", "averageweight", "maxweight")
    height = float(np.clip(rng.normal(0, 0.12), -0.3, 0.3))
    weight_of |= _interpolate(height, "minheight", "", "maxheight")
    weight_of |= _interpolate(
        float(rng.uniform(-1, 1)), "uncommonproportions", "", "idealproportions"
    )
    weights = {name: _macro_weight(name, weight_of) for name in model.targets}
    for name, amount in _detail_weights(model, rng).items():
        gender = weight_of["female" if "-fem-" in name else "male"] if "bodyshapes" in name else 1.0
        weights[name] = amount * gender
    return weights


def _macro_weight(name: str, weight_of: dict[str, float]) -> float:
    """Return the product of the weights in a macro target's name; 0 for other targets."""
    words = name.split("-")
    if not all(word in weight_of for word in words):
        return 0.0
    if words[0] in ("male", "female"):  # heights and proportions exist only for the average body
        words = [words[0], words[-1]]
    return float(np.prod([weight_of[word] for word in words]))


def _detail_weights(model: BodyModel, rng: Random) -> dict[str, float]:
    """Return small weights of a few local targets, symmetric in left and right."""
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
