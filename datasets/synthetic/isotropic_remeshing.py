"""Feature-preserving isotropic remeshing of a :class:`PatchMesh`.

Edge splits, collapses, flips and tangential relaxation (Botsch and Kobbelt, "A Remeshing Approach
to Multiresolution Modeling", SGP 2004). Each step processes an independent set of edges at once.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from permutogeo.datasets.synthetic.patch_mesh import (
    CORNER,
    CREASE,
    GOOD_QUALITY,
    SMOOTH,
    PatchMesh,
    triangle_quality,
)
from permutogeo.datasets.synthetic.relaxation import relax, revert_inverted
from permutogeo.typing import Array


def remesh(mesh: PatchMesh, length: float, rounds: int = 6) -> PatchMesh:
    """Return a mesh of the same surfaces with edge lengths near ``length``."""
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
        mesh = _flip_and_relax(mesh, length)
    for _ in range(rounds // 2):
        mesh = _flip_and_relax(mesh, length)
    everywhere = np.arange(len(mesh.pos))
    pos = mesh.project(mesh.pos, everywhere, length / 2)
    return mesh.rebuilt(pos, mesh.face, mesh.patch, mesh.fixed)


def _flip_and_relax(mesh: PatchMesh, length: float) -> PatchMesh:
    for _ in range(4):
        mesh, count = flip(mesh)
        if count < len(mesh.face) / 200:
            break
    return relax(mesh, length)


def _independent_edges(mesh: PatchMesh, candidate: Array, score: Array) -> Array:
    """Return the candidate edges with the highest score in both of their faces."""
    edges = np.flatnonzero(candidate)
    edges = edges[np.argsort(score[edges], kind="stable")]
    faces = mesh.edges.faces[edges]
    best = np.full(len(mesh.face), -1)
    best[faces.reshape(-1)] = np.repeat(edges, 2)  # the last one written wins
    return edges[(best[faces] == edges[:, None]).all(axis=1)]


def jitter(mesh: PatchMesh, distance: float, rng: np.random.Generator) -> PatchMesh:
    """Displace vertices at random along their surfaces and creases."""
    step = distance * rng.standard_normal(mesh.pos.shape)
    step[mesh.vertex_type == CORNER] = 0
    pos = mesh.project(mesh.pos + step, np.arange(len(step)), 2 * distance)
    mesh = mesh.rebuilt(revert_inverted(mesh, pos), mesh.face, mesh.patch, mesh.fixed)
    return flip(mesh)[0]


def split(mesh: PatchMesh, longest: float) -> PatchMesh:
    """Split edges longer than ``longest`` at their midpoints."""
    length = mesh.edge_length
    chosen = _independent_edges(mesh, length > longest, length)
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
    mesh = mesh.rebuilt(pos, face, patch, fixed)
    pos[new] = mesh.project(pos[new], new, longest / 4)
    return mesh


def flip(mesh: PatchMesh) -> tuple[PatchMesh, int]:
    """Flip edges inside patches that violate the Delaunay criterion; also return their number."""
    edges, count = mesh.edges, len(mesh.pos)
    (a, b), (c, d) = edges.ends.T, edges.opposite.T
    excess = -_cotangent(mesh.pos, a, b, c) - _cotangent(mesh.pos, a, b, d)
    spare = _spare_edges(mesh)
    free = ~mesh.is_crease & (spare[a] > 0) & (spare[b] > 0) & (excess > 1e-6)
    free[free] &= ~np.isin(_edge_keys(c[free], d[free], count), _edge_keys(a, b, count))
    new = np.stack([np.stack([a, d, c], 1), np.stack([d, b, c], 1)], axis=1)
    outward = mesh.surface_normals(edges.faces[free].reshape(-1)).reshape(-1, 2, 3)
    old = triangle_quality(mesh.pos[mesh.face[edges.faces[free]]], outward).min(axis=1)
    free[free] &= triangle_quality(mesh.pos[new[free]], outward).min(axis=1) > np.minimum(
        old, GOOD_QUALITY
    )
    chosen = _independent_edges(mesh, free, excess)
    chosen = chosen[np.unique(_edge_keys(c[chosen], d[chosen], count), return_index=True)[1]]
    face = mesh.face.copy()
    face[edges.faces[chosen]] = new[chosen]
    return mesh.rebuilt(mesh.pos, face, mesh.patch, mesh.fixed), len(chosen)


def _spare_edges(mesh: PatchMesh) -> Array:
    """Return how many edges each vertex can lose: three must remain, five at an apex."""
    valence = np.bincount(mesh.edges.ends.reshape(-1), minlength=len(mesh.pos))
    return valence - np.where(mesh.fixed, 5, 3)


def _edge_keys(a: Array, b: Array, count: int) -> Array:
    return np.minimum(a, b) * count + np.maximum(a, b)


def _cotangent(pos: Array, a: Array, b: Array, apex: Array) -> Array:
    """Return the cotangent of the angle at ``apex`` between ``a`` and ``b``."""
    u, v = pos[a] - pos[apex], pos[b] - pos[apex]
    sine = np.linalg.norm(np.cross(u, v), axis=1)
    return (u * v).sum(axis=1) / np.maximum(sine, 1e-12)


def collapse(
    mesh: PatchMesh, shortest: float, longest: float, rng: np.random.Generator
) -> PatchMesh:
    """Collapse edges shorter than ``shortest`` that destroy no crease and invert no face."""
    keep, gone = _collapsible(mesh, shortest, rng)
    kind = mesh.vertex_type
    middle = (mesh.pos[keep] + mesh.pos[gone]) / 2
    target = np.where((kind[keep] == kind[gone])[:, None], middle, mesh.pos[keep])
    pos = mesh.pos.copy()
    pos[keep] = mesh.project(target, keep, shortest / 2)
    onto = np.arange(len(pos))
    onto[gone] = keep
    face = onto[mesh.face]
    bad = _damaged_faces(mesh, pos, face, longest)
    owner = np.full(len(pos), -1)
    owner[keep] = np.arange(len(keep))
    refused = np.unique(owner[face[bad]])
    refused = refused[refused >= 0]
    onto[gone[refused]] = gone[refused]
    pos[keep[refused]] = mesh.pos[keep[refused]]
    return _remove_degenerate(mesh, pos, onto[mesh.face])


def _damaged_faces(mesh: PatchMesh, pos: Array, face: Array, longest: float) -> Array:
    """Return changed faces that are inverted, flattened, or have too long an edge."""
    alive = (face != np.roll(face, 1, axis=1)).all(axis=1)
    changed = (pos[face] != mesh.pos[mesh.face]).any(axis=(1, 2))
    rows = np.flatnonzero(alive & changed)
    corner, outward = pos[face[rows]], mesh.surface_normals(rows)
    side = np.linalg.norm(corner - np.roll(corner, 1, axis=1), axis=2)
    before = triangle_quality(mesh.pos[mesh.face[rows]], outward)
    worse = triangle_quality(corner, outward) < np.minimum(before, GOOD_QUALITY) - 1e-4
    return rows[worse | (side > longest).any(axis=1)]


def _collapsible(mesh: PatchMesh, shortest: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return the vertices to keep and to remove of an independent set of short edges.

    Shorter edges are preferred at random: otherwise an edge that cannot be collapsed would block
    its neighbors forever.
    """
    ends, length, kind = mesh.edges.ends, mesh.edge_length, mesh.vertex_type
    swap = kind[ends[:, 0]] < kind[ends[:, 1]]
    keep, gone = np.where(swap, ends[:, 1], ends[:, 0]), np.where(swap, ends[:, 0], ends[:, 1])
    twins = (length < shortest / 100) & ~mesh.fixed[gone]
    allowed = (kind[gone] == SMOOTH) | ((kind[gone] == CREASE) & mesh.is_crease) | twins
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


def _remove_degenerate(mesh: PatchMesh, pos: Array, face: Array) -> PatchMesh:
    """Return the mesh without degenerate faces and unused vertices."""
    alive = (face != np.roll(face, 1, axis=1)).all(axis=1)
    used, index = np.unique(face[alive], return_inverse=True)
    return mesh.rebuilt(pos[used], index.reshape(-1, 3), mesh.patch[alive], mesh.fixed[used])
