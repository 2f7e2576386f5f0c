"""Body model with blend shapes and linear blend skinning, read from an archive."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from permutogeo.datasets.sources import read_arrays
from permutogeo.datasets.synthetic.patch_mesh import Edges, MeshingError
from permutogeo.typing import Array

# Offsets of blend shapes are stored in tenths of a millimeter.
_UNIT = 1e-4
_ARRAYS = {
    "vertices": (None, 3),
    "quads": (None, 4),
    "shape_name": (None,),
    "shape_offset": (None,),
    "shape_gap": (None,),
    "shape_dxyz": (None, 3),
    "bone_name": (None,),
    "bone_parent": (None,),
    "joint": (None, 3),
    "joint_dxyz": (None, None, 3),
    "skin_bone": (None, 4),
    "skin_weight": (None, 4),
}


@dataclass(frozen=True)
class BodyModel:
    """Template mesh with blend shapes (targets) and a skeleton.

    Args:
        path: Archive file.
        vertices: Template vertices ``[V, 3]`` in meters, y up.
        face: Triangles ``[F, 3]``.
        targets: Vertex indices ``[T]`` and offsets ``[T, 3]`` of each blend shape by name.
        joint: Joint (start) of each bone in the template, ``[B, 3]``.
        joint_shift: Offsets of the joints by each blend shape, ``[S, B, 3]``.
        parent: Parent of each bone, a lower index; -1 for the root.
        bones: Index of each bone by name.
        skin_bone: Four bones of each vertex, ``[V, 4]``.
        skin_weight: Their skinning weights, ``[V, 4]``.
        edges: Mesh edges.
    """

    path: Path
    vertices: Array
    face: Array
    targets: dict[str, tuple[Array, Array]]
    joint: Array
    joint_shift: Array
    parent: Array
    bones: dict[str, int]
    skin_bone: Array
    skin_weight: Array
    edges: Edges

    @classmethod
    def load(cls, path: Path) -> BodyModel:
        """Read and check an archive."""
        arrays = read_arrays(path, _ARRAYS)
        _check(path, arrays)
        vertices = arrays["vertices"].astype(np.float64)
        face = _triangles(vertices, arrays["quads"].astype(np.int64))
        weight = arrays["skin_weight"].astype(np.float64)
        return cls(
            path=path,
            vertices=vertices,
            face=face,
            targets=_targets(arrays),
            joint=arrays["joint"].astype(np.float64),
            joint_shift=_UNIT * arrays["joint_dxyz"].astype(np.float64),
            parent=arrays["bone_parent"].astype(np.int64),
            bones={str(name): k for k, name in enumerate(arrays["bone_name"])},
            skin_bone=arrays["skin_bone"].astype(np.int64),
            skin_weight=weight / weight.sum(axis=1, keepdims=True),
            edges=_edges(path, face),
        )

    def apply_shape(self, weights: dict[str, float]) -> tuple[Array, Array]:
        """Return vertices ``[V, 3]`` and joints ``[B, 3]`` with weighted blend shapes added."""
        vertices, joint = self.vertices.copy(), self.joint.copy()
        for k, (name, (rows, offset)) in enumerate(self.targets.items()):
            weight = weights.get(name, 0.0)
            if weight != 0:
                vertices[rows] += weight * offset
                joint += weight * self.joint_shift[k]
        return vertices, joint

    def apply_pose(self, vertices: Array, joint: Array, rotation: Array) -> Array:
        r"""Return the vertices posed by linear blend skinning.

        .. math::
            v' = \sum_b w_b \left(G_b (v - j_b) + h_b\right), \quad G_b = G_{p(b)} R_b, \quad
            h_b = h_{p(b)} + G_{p(b)} (j_b - j_{p(b)})

        Args:
            vertices: Vertices at rest, ``[V, 3]``.
            joint: Joints :math:`j` at rest, ``[B, 3]``.
            rotation: Rotation :math:`R` of each bone relative to its parent, ``[B, 3, 3]``; the
                rest pose is the identity.
        """
        frame, head = rotation.copy(), joint.copy()
        for bone, parent in enumerate(self.parent):
            if parent >= 0:
                frame[bone] = frame[parent] @ rotation[bone]
                head[bone] = head[parent] + frame[parent] @ (joint[bone] - joint[parent])
        shift = head - np.einsum("bij,bj->bi", frame, joint)
        weight = self.skin_weight[..., None]
        blend = (weight[..., None] * frame[self.skin_bone]).sum(axis=1)
        moved = (weight * shift[self.skin_bone]).sum(axis=1)
        return np.einsum("vij,vj->vi", blend, vertices) + moved


def _targets(arrays: dict[str, Array]) -> dict[str, tuple[Array, Array]]:
    """Return vertex indices and offsets of each blend shape by name."""
    gap, offset = arrays["shape_gap"].astype(np.int64), arrays["shape_dxyz"].astype(np.float64)
    ranges = pairwise(arrays["shape_offset"].astype(np.int64))
    return {
        str(name): (np.cumsum(gap[start:end]), _UNIT * offset[start:end])
        for name, (start, end) in zip(arrays["shape_name"], ranges, strict=True)
    }


def _triangles(vertices: Array, quads: Array) -> Array:
    """Split each quadrilateral along its shorter diagonal."""
    corner = vertices[quads]
    first = np.linalg.norm(corner[:, 0] - corner[:, 2], axis=1)
    second = np.linalg.norm(corner[:, 1] - corner[:, 3], axis=1)
    quads = np.where((first <= second)[:, None], quads, np.roll(quads, -1, axis=1))
    return quads[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3)


def _edges(path: Path, face: Array) -> Edges:
    try:
        return Edges.of(face)
    except MeshingError as error:
        raise ValueError(f"'{path}': Expected a closed surface in 'quads' ({error})") from error


def _require(path: Path, condition: bool | np.bool_, expected: str) -> None:
    if not condition:
        raise ValueError(f"'{path}': Expected {expected} in a body model (it has not)")


def _check(path: Path, arrays: dict[str, Array]) -> None:
    """Raise unless the arrays of the archive are consistent."""
    count, bones = len(arrays["vertices"]), len(arrays["bone_name"])
    for name in ("vertices", "joint", "skin_weight"):
        finite = np.isfinite(arrays[name].astype(np.float64)).all()
        _require(path, finite, f"finite numbers in '{name}'")
    for name, limit in (("quads", count), ("skin_bone", bones)):
        index = arrays[name].astype(np.int64)
        fits = index.size > 0 and index.min() >= 0 and index.max() < limit
        _require(path, fits, f"numbers from 0 to {limit - 1} in '{name}'")
    parent = arrays["bone_parent"].astype(np.int64)
    one_each = len(parent) == len(arrays["joint"]) == bones
    _require(path, one_each, "a parent and a joint for each bone")
    ordered = (parent < np.arange(bones)).all() and (parent >= -1).all()
    _require(path, ordered, "parents before their bones")
    weight = arrays["skin_weight"].astype(np.float64)
    one_each = len(arrays["skin_bone"]) == len(weight) == count
    _require(path, one_each, "four bones and weights for each vertex")
    _require(
        path, (weight >= 0).all() and (weight.sum(axis=1) > 0.5).all(), "weights that sum to 1"
    )
    _check_targets(path, arrays)


def _check_targets(path: Path, arrays: dict[str, Array]) -> None:
    names, bones = len(arrays["shape_name"]), len(arrays["bone_name"])
    start, gap = arrays["shape_offset"].astype(np.int64), arrays["shape_gap"].astype(np.int64)
    one_each = len(start) == names + 1 and len(arrays["shape_dxyz"]) == len(gap)
    _require(path, one_each, "an offset for each shape")
    for name in ("shape_name", "bone_name"):
        unique = len(np.unique(arrays[name])) == len(arrays[name])
        _require(path, unique, f"different names in '{name}'")
    rising = start[0] == 0 and (np.diff(start) >= 0).all() and start[-1] == len(gap)
    _require(path, rising, "ascending offsets of shapes")
    last = max((gap[a:b].sum() for a, b in pairwise(start)), default=0)
    fits = (gap >= 0).all() and last < len(arrays["vertices"])
    _require(path, fits, "shapes that move existing vertices")
    shifts = arrays["joint_dxyz"].shape[:2] == (names, bones)
    _require(path, shifts, "shifts of all joints by all shapes")
