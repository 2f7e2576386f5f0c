"""Random bodies of a :class:`BodyModel`, and what is asked of them."""

from __future__ import annotations

import numpy as np
import torch
from scipy.spatial import cKDTree

from permutogeo.data._fields import Array
from permutogeo.datasets._body_model import BodyModel
from permutogeo.datasets._body_poses import random_pose
from permutogeo.datasets._body_shapes import random_shape
from permutogeo.datasets._patchwork import unit_normal
from permutogeo.transforms._mesh import vertex_normals


def random_body(model: BodyModel, rng: np.random.Generator, tries: int = 20) -> Array:
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
    folds = int(((bend_after < -0.2) & (bend_before > 0.3)).sum())
    return folds <= len(ends) / 1500 and penetrations(model, posed) <= 3


def _bends(model: BodyModel, vertices: Array) -> Array:
    """The cosine between the normals of the two faces of each edge, ``[E]``."""
    normal = unit_normal(vertices[model.face])[model.edges.faces]
    return (normal[:, 0] * normal[:, 1]).sum(axis=1)


# What may run into what: a hand or forearm, and a shank or foot, into all that it does not hang on.
_REST = ("spine", "breast", "neck", "head", "pelvis", "jaw", "upperleg", "lowerleg", "foot", "toe")
_LIMBS = (
    (
        ("lowerarm", "wrist", "finger", "metacarpal"),
        _REST,
        ("upperarm", "lowerarm", "wrist", "finger"),
    ),
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
    kinds = {
        name: name.startswith(prefixes) and name.endswith(side) for name in set(owner.tolist())
    }
    return np.array([kinds[name] for name in owner.tolist()])


def _vertex_normals(vertices: Array, face: Array) -> Array:
    return vertex_normals(torch.from_numpy(vertices), torch.from_numpy(face.T.copy())).numpy()
