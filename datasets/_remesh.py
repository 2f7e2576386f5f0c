"""Triangles of even size for a :class:`Patchwork`, with its creases kept as edges.

As in Botsch and Kobbelt's "A Remeshing Approach to Multiresolution Modeling" (2004): long edges are
split, short ones collapsed, others flipped, and vertices moved along their surfaces. Each step
takes many edges at once that do not touch.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from permutogeo.data._fields import Array
from permutogeo.datasets._patchwork import (
    CORNER,
    CREASE,
    HEALTHY,
    INNER,
    Patchwork,
    quality,
)
from permutogeo.datasets._relax import relax, untangled


def remesh(mesh: Patchwork, length: float, rounds: int = 6) -> Patchwork:
    """A mesh of the same surfaces with edges near ``length``."""
    rng = np.random.default_rng(0)
    for _ in range(rounds - 1):
        mesh = relax(mesh, length, careful=False)
    for _ in range(rounds):
        mesh = split(split(mesh, 4 / 3 * length), 4 / 3 * length)
        for _ in range(12):
            count = len(mesh.pos)
            mesh = collapse(mesh, 4 / 5 * length, 4 / 3 * length, rng)
            if len(mesh.pos) > 0.99 * count:
                break
        mesh = _settle(mesh, length)
    for _ in range(rounds // 2):
        mesh = _settle(mesh, length)
    everywhere = np.arange(len(mesh.pos))
    pos = mesh.fit(mesh.pos, everywhere, length / 2)
    return mesh.changed(pos, mesh.face, mesh.patch, mesh.fixed)


def _settle(mesh: Patchwork, length: float) -> Patchwork:
    for _ in range(4):
        mesh, count = flip(mesh)
        if count < len(mesh.face) / 200:
            break
    return relax(mesh, length)


def _best_of_both(mesh: Patchwork, candidate: Array, score: Array) -> Array:
    """The candidate edges that have the highest score in both of their faces."""
    edges = np.flatnonzero(candidate)
    edges = edges[np.argsort(score[edges], kind="stable")]
    faces = mesh.edges.faces[edges]
    best = np.full(len(mesh.face), -1)
    best[faces.reshape(-1)] = np.repeat(edges, 2)  # the last written stays
    return edges[(best[faces] == edges[:, None]).all(axis=1)]


def scatter(mesh: Patchwork, distance: float, rng: np.random.Generator) -> Patchwork:
    """Moves vertices about at random along their surfaces and creases."""
    step = distance * rng.standard_normal(mesh.pos.shape)
    step[mesh.rank == CORNER] = 0
    pos = mesh.fit(mesh.pos + step, np.arange(len(step)), 2 * distance)
    mesh = mesh.changed(untangled(mesh, pos), mesh.face, mesh.patch, mesh.fixed)
    return flip(mesh)[0]


def split(mesh: Patchwork, longest: float) -> Patchwork:
    """Halves edges that are too long."""
    length = mesh.length
    chosen = _best_of_both(mesh, length > longest, length)
    edges = mesh.edges
    new = len(mesh.pos) + np.arange(len(chosen))
    pos = np.concatenate([mesh.pos, mesh.pos[edges.ends[chosen]].mean(axis=1)])
    face, patch = mesh.face.copy(), mesh.patch
    (a, b), (c, d) = edges.ends[chosen].T, edges.opposite[chosen].T
    first, second = edges.faces[chosen].T
    face[first], face[second] = np.stack([a, new, c], 1), np.stack([new, a, d], 1)
    face = np.concatenate([face, np.stack([new, b, c], 1), np.stack([b, new, d], 1)])
    patch = np.concatenate([patch, patch[first], patch[second]])
    fixed = np.concatenate([mesh.fixed, np.zeros(len(new), bool)])
    mesh = mesh.changed(pos, face, patch, fixed)
    pos[new] = mesh.fit(pos[new], new, longest / 4)
    return mesh


def flip(mesh: Patchwork) -> tuple[Patchwork, int]:
    """Turns edges inside a patch whose opposite angles sum to more than two right ones.

    Also returns how many there were.
    """
    edges, count = mesh.edges, len(mesh.pos)
    (a, b), (c, d) = edges.ends.T, edges.opposite.T
    excess = -_cotangent(mesh.pos, a, b, c) - _cotangent(mesh.pos, a, b, d)
    spare = _spare_edges(mesh)
    free = ~mesh.is_crease & (spare[a] > 0) & (spare[b] > 0) & (excess > 1e-6)
    free[free] &= ~np.isin(_keys(c[free], d[free], count), _keys(a, b, count))
    new = np.stack([np.stack([a, d, c], 1), np.stack([d, b, c], 1)], axis=1)
    outward = mesh.outward(edges.faces[free].reshape(-1)).reshape(-1, 2, 3)
    old = quality(mesh.pos[mesh.face[edges.faces[free]]], outward).min(axis=1)
    free[free] &= quality(mesh.pos[new[free]], outward).min(axis=1) > np.minimum(old, HEALTHY)
    chosen = _best_of_both(mesh, free, excess)
    chosen = chosen[np.unique(_keys(c[chosen], d[chosen], count), return_index=True)[1]]
    face = mesh.face.copy()
    face[edges.faces[chosen]] = new[chosen]
    return mesh.changed(mesh.pos, face, mesh.patch, mesh.fixed), len(chosen)


def _spare_edges(mesh: Patchwork) -> Array:
    """How many edges each vertex can lose: three remain, and five at a tip to make it round."""
    valence = np.bincount(mesh.edges.ends.reshape(-1), minlength=len(mesh.pos))
    return valence - np.where(mesh.fixed, 5, 3)


def _keys(a: Array, b: Array, count: int) -> Array:
    return np.minimum(a, b) * count + np.maximum(a, b)


def _cotangent(pos: Array, a: Array, b: Array, apex: Array) -> Array:
    """Of the angle at ``apex`` between ``a`` and ``b``."""
    u, v = pos[a] - pos[apex], pos[b] - pos[apex]
    sine = np.linalg.norm(np.cross(u, v), axis=1)
    return (u * v).sum(axis=1) / np.maximum(sine, 1e-12)


def collapse(
    mesh: Patchwork, shortest: float, longest: float, rng: np.random.Generator
) -> Patchwork:
    """Removes edges that are too short, where no crease is lost and no face turns over."""
    keep, gone = _collapsible(mesh, shortest, rng)
    rank = mesh.rank
    middle = (mesh.pos[keep] + mesh.pos[gone]) / 2
    target = np.where((rank[keep] == rank[gone])[:, None], middle, mesh.pos[keep])
    pos = mesh.pos.copy()
    pos[keep] = mesh.fit(target, keep, shortest / 2)
    onto = np.arange(len(pos))
    onto[gone] = keep
    face = onto[mesh.face]
    bad = _spoiled(mesh, pos, face, longest)
    owner = np.full(len(pos), -1)
    owner[keep] = np.arange(len(keep))
    refused = np.unique(owner[face[bad]])
    refused = refused[refused >= 0]
    onto[gone[refused]] = gone[refused]
    pos[keep[refused]] = mesh.pos[keep[refused]]
    return _compact(mesh, pos, onto[mesh.face])


def _spoiled(mesh: Patchwork, pos: Array, face: Array, longest: float) -> Array:
    """Changed faces that turned over, became flat, or have an edge that is too long."""
    alive = (face != np.roll(face, 1, axis=1)).all(axis=1)
    changed = (pos[face] != mesh.pos[mesh.face]).any(axis=(1, 2))
    rows = np.flatnonzero(alive & changed)
    corner, outward = pos[face[rows]], mesh.outward(rows)
    side = np.linalg.norm(corner - np.roll(corner, 1, axis=1), axis=2)
    before = quality(mesh.pos[mesh.face[rows]], outward)
    worse = quality(corner, outward) < np.minimum(before, HEALTHY) - 1e-4
    return rows[worse | (side > longest).any(axis=1)]


def _collapsible(mesh: Patchwork, shortest: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Vertices to keep and to remove, of short edges far enough apart.

    Shorter ones come first as a rule; if always, one that may not go would block its neighbors.
    """
    ends, length, rank = mesh.edges.ends, mesh.length, mesh.rank
    swap = rank[ends[:, 0]] < rank[ends[:, 1]]
    keep, gone = np.where(swap, ends[:, 1], ends[:, 0]), np.where(swap, ends[:, 0], ends[:, 1])
    twins = (length < shortest / 100) & ~mesh.fixed[gone]
    allowed = (rank[gone] == INNER) | ((rank[gone] == CREASE) & mesh.is_crease) | twins
    allowed &= (_spare_edges(mesh)[mesh.edges.opposite] > 0).all(axis=1) & (length < shortest)
    edges = np.flatnonzero(allowed)
    edges = edges[_common_neighbors(ends, keep[edges], gone[edges], len(mesh.pos)) == 2]
    order = np.empty(len(edges), np.int64)
    score = length[edges] * rng.uniform(1, 3, len(edges))
    order[np.argsort(-score)] = np.arange(len(edges)) + 1
    near = np.zeros(len(mesh.pos), np.int64)
    for end in (keep, gone):
        np.maximum.at(near, end[edges], order)
    around = near.copy()
    np.maximum.at(around, ends[:, 0], near[ends[:, 1]])
    np.maximum.at(around, ends[:, 1], near[ends[:, 0]])
    edges = edges[(around[keep[edges]] == order) & (around[gone[edges]] == order)]
    return keep[edges], gone[edges]


def _common_neighbors(ends: Array, a: Array, b: Array, count: int) -> Array:
    ones = np.ones(2 * len(ends), np.int32)
    both = np.concatenate([ends, ends[:, ::-1]])
    matrix = csr_matrix((ones, (both[:, 0], both[:, 1])), (count, count))
    return np.asarray(matrix[a].multiply(matrix[b]).sum(axis=1)).reshape(-1)


def _compact(mesh: Patchwork, pos: Array, face: Array) -> Patchwork:
    """The mesh without faces that have a vertex twice, and without unused vertices."""
    alive = (face != np.roll(face, 1, axis=1)).all(axis=1)
    used, index = np.unique(face[alive], return_inverse=True)
    return mesh.changed(pos[used], index.reshape(-1, 3), mesh.patch[alive], mesh.fixed[used])
