"""Meshes and point clouds of a scene: reading, decimation, and scaling to the unit sphere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial import cKDTree
from torch_geometric.data import Data

from permutogeo.data.fields import byte_colors, from_data
from permutogeo.typing import Array

MAX_SHAPES = 8
NORMAL_NEIGHBORS = 12
DISC_RADIUS = 1.2  # in mean spacings


@dataclass(frozen=True)
class Shape:
    """One mesh or point cloud.

    ``num_points``, ``num_faces``, ``error_mean`` and ``error_max`` describe the input; the arrays
    hold what is drawn, which may be decimated.
    """

    name: str
    pos: Array  # [N, 3] float64
    face: Array | None  # [F, 3]; shapes with the same triangles share one array
    color: Array | None  # [N, 3] uint8
    normal: Array | None  # [N, 3] of the points of a cloud, of either sign
    num_points: int
    num_faces: int
    error: Array | None = None  # [N], in the unit of the scene
    error_mean: float = 0.0
    error_max: float = 0.0
    spacing: float = 0.0  # mean distance between the points of a cloud

    @property
    def radius(self) -> float:
        """Radius of the discs that points are drawn as; 0 for a mesh."""
        return DISC_RADIUS * self.spacing

    @property
    def is_reduced(self) -> bool:
        """Whether fewer triangles or points are drawn than the input has."""
        if self.face is None:
            return len(self.pos) < self.num_points
        return len(self.face) < self.num_faces

    @property
    def counts(self) -> str:
        """Number of vertices and triangles, as a caption."""
        if self.face is None:
            return f"{self.num_points:,} points"
        return f"{self.num_points:,} vertices · {self.num_faces:,} triangles"


def read_shapes(meshes: Mapping[str, Data], caller: str) -> list[Shape]:
    """Check the ``meshes`` of a page or a picture and return them as shapes."""
    if not 1 <= len(meshes) <= MAX_SHAPES:
        raise ValueError(f"{caller}: Expected 1 to {MAX_SHAPES} 'meshes' (got {len(meshes)})")
    shapes: list[Shape] = []
    for name, data in meshes.items():
        shapes.append(_share_faces(_read(str(name), data, caller), shapes))
    return shapes


def _read(name: str, data: Data, caller: str) -> Shape:
    origin = f"{caller}, '{name}'"
    if not isinstance(data, Data):
        raise TypeError(f"{origin}: Expected torch_geometric.data.Data (got {type(data).__name__})")
    is_mesh = data.get("face") is not None and data["face"].numel() > 0
    fields = from_data(data, origin, mesh=is_mesh)
    pos = fields["pos"].astype(np.float64)
    color = byte_colors(fields["x"]) if "x" in fields else None
    if not is_mesh:
        return Shape(name, pos, None, color, fields.get("normal"), len(pos), 0)
    # Unreferenced vertices are not drawn and must not widen the frame.
    used = np.zeros(len(pos), bool)
    used[fields["face"]] = True
    face = (np.cumsum(used) - 1)[fields["face"]]
    color = None if color is None else color[used]
    return Shape(name, pos[used], face, color, None, len(pos), len(face))


def have_same_faces(face: Array | None, other: Array | None) -> bool:
    """Return whether two meshes have the same triangles, or neither has any."""
    if face is None or other is None:
        return face is other
    return face is other or np.array_equal(face, other)


def _share_faces(shape: Shape, others: Sequence[Shape]) -> Shape:
    """Return the shape with the face array of another one that has the same triangles."""
    for other in others:
        if have_same_faces(shape.face, other.face):
            return replace(shape, face=other.face)
    return shape


def decimate(shapes: Sequence[Shape], max_faces: int) -> list[Shape]:
    """Return shapes of at most ``max_faces`` triangles or points each.

    Shapes that share their triangles still share them afterwards.
    """
    # The last of the shapes with the same triangles, the ground truth or a result, defines the
    # clusters: those of a noisy mesh would fold triangles over.
    meshes = {id(shape.face): shape for shape in shapes if shape.face is not None}
    clustered = {
        key: cluster_vertices(shape.pos, shape.face, max_faces)
        for key, shape in meshes.items()
        if shape.face is not None and len(shape.face) > max_faces
    }
    out = []
    for shape in shapes:
        if id(shape.face) in clustered:
            shape = _subset(shape, *clustered[id(shape.face)])
        elif shape.face is None and len(shape.pos) > max_faces:
            kept = np.random.default_rng(0).permutation(len(shape.pos))[:max_faces]
            shape = _subset(shape, np.sort(kept), None)
        out.append(shape)
    return out


def _subset(shape: Shape, keep: Array, face: Array | None) -> Shape:
    """Return the shape with the points ``keep`` and triangles among them."""
    arrays = {name: getattr(shape, name) for name in ("pos", "color", "normal", "error")}
    arrays = {name: None if value is None else value[keep] for name, value in arrays.items()}
    return replace(shape, face=face, **arrays)


def cluster_vertices(pos: Array, face: Array, max_faces: int) -> tuple[Array, Array]:
    """Return vertices to keep ``[M]`` and at most ``max_faces`` triangles among them.

    Vertex clustering on a uniform grid (Rossignac and Borrel, "Multi-resolution 3D approximations
    for rendering complex scenes", 1993).
    """
    corner = pos[face]
    sides = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    area = np.linalg.norm(sides, axis=1).sum() / 2
    extent = float(np.ptp(pos, axis=0).max())
    cell = max(float(np.sqrt(2 * area / max_faces)), 1e-5 * extent)
    while True:
        keep, cluster = _grid_clusters(pos, cell)
        fewer = cluster[face]
        kept = (fewer != np.roll(fewer, 1, axis=1)).all(axis=1)
        if kept.sum() <= max_faces:
            return keep, fewer[kept]
        cell *= 1.05 * float(np.sqrt(kept.sum() / max_faces))


def _grid_clusters(pos: Array, cell: float) -> tuple[Array, Array]:
    """Return one vertex per occupied grid cell ``[M]``, and the cell of each vertex ``[N]``."""
    scaled = (pos - pos.min(axis=0)) / cell
    place = np.floor(scaled).astype(np.int64)
    span = place.max(axis=0) + 1
    key = (place[:, 0] * span[1] + place[:, 1]) * span[2] + place[:, 2]
    # The vertex nearest to the cell's center represents it: a mean would smooth the noise away.
    off_center = ((scaled - place - 0.5) ** 2).sum(axis=1)
    order = np.lexsort((off_center, key))
    starts = np.diff(key[order], prepend=-1) > 0
    cluster = np.empty_like(key)
    cluster[order] = np.cumsum(starts) - 1
    return order[starts], cluster


def fit_unit_sphere(shapes: Sequence[Shape]) -> tuple[list[Shape], float]:
    """Return all shapes moved and scaled alike into the unit sphere, and the radius of the input.

    Clouds get normals.
    """
    low = np.min([shape.pos.min(axis=0) for shape in shapes], axis=0)
    high = np.max([shape.pos.max(axis=0) for shape in shapes], axis=0)
    center = (low + high) / 2
    radius = max(float(np.linalg.norm(shape.pos - center, axis=1).max()) for shape in shapes)
    radius = radius or 1.0
    return [_with_normals(replace(s, pos=(s.pos - center) / radius)) for s in shapes], radius


def _with_normals(shape: Shape) -> Shape:
    """Return a cloud with unit normals and the spacing that its discs are drawn with."""
    if shape.face is not None:
        return shape
    normal = _estimate_normals(shape.pos) if shape.normal is None else shape.normal
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    normal = np.where(length > 0, normal / np.where(length > 0, length, 1.0), [0.0, 0.0, 1.0])
    return replace(shape, normal=normal, spacing=mean_spacing(shape.pos))


def _estimate_normals(pos: Array) -> Array:
    """Return the least principal direction of each point's neighbors, of arbitrary sign."""
    near = cKDTree(pos).query(pos, k=[*range(1, min(NORMAL_NEIGHBORS, len(pos)) + 1)])[1]
    around = pos[near] - pos[near].mean(axis=1, keepdims=True)
    return np.linalg.eigh(np.einsum("nki,nkj->nij", around, around))[1][:, :, 0]


def mean_spacing(pos: Array) -> float:
    """Return the mean distance to the nearest neighbor, without duplicates."""
    if len(pos) < 2:
        return 0.0
    distance = cKDTree(pos).query(pos, k=2)[0][:, 1]
    return float(distance[distance > 0].mean()) if (distance > 0).any() else 0.0
