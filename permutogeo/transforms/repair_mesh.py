"""Repair of damaged meshes and point clouds."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.data.fields import FINITE_ATTRIBUTES
from permutogeo.data.require import is_point_attribute, require_faces, require_pos, require_single

# Field of the report, and its description for a count of one and of several.
_DESCRIPTIONS = {
    "nonfinite_vertices": ("non-finite vertex", "non-finite vertices"),
    "faces_at_nonfinite": ("face at such a vertex", "faces at such vertices"),
    "out_of_range_faces": ("face with an index out of range", "faces with indices out of range"),
    "degenerate_faces": ("face with a repeated vertex", "faces with repeated vertices"),
    "duplicate_faces": ("duplicate face", "duplicate faces"),
}


@dataclass(frozen=True)
class RepairReport:
    """Counts of what :meth:`RepairMesh.repair` removed or changed.

    It is false if nothing was repaired; ``str(report)`` is one sentence for a user.

    Args:
        nonfinite_vertices: Vertices dropped because a coordinate is NaN or infinite.
        faces_at_nonfinite: Faces dropped with such a vertex.
        out_of_range_faces: Faces dropped because an index refers to no vertex.
        degenerate_faces: Faces dropped because two of their indices are equal.
        duplicate_faces: Faces dropped because an earlier face has the same corners and orientation.
        zeroed: Names of attributes in which non-finite values were set to 0.
    """

    nonfinite_vertices: int = 0
    faces_at_nonfinite: int = 0
    out_of_range_faces: int = 0
    degenerate_faces: int = 0
    duplicate_faces: int = 0
    zeroed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.dropped or self.zeroed)

    @property
    def dropped(self) -> str:
        """The dropped vertices and faces with their counts, or an empty string."""
        counts = {name: getattr(self, name) for name in _DESCRIPTIONS}
        return ", ".join(
            f"{count:,} {_DESCRIPTIONS[name][count > 1]}" for name, count in counts.items() if count
        )

    def __str__(self) -> str:
        parts = [f"dropped {self.dropped}"] if self.dropped else []
        parts += [f"set non-finite values of '{name}' to 0" for name in self.zeroed]
        return "; ".join(parts)


class RepairMesh(BaseTransform):
    r"""Removes invalid vertices and faces from a mesh or a point cloud, and warns with the counts.

    Dropped are non-finite vertices with their faces, faces with an index out of range, faces with
    a repeated vertex, and duplicates of earlier faces with the same orientation (a face and its
    reverse are the two sides of a sheet and both stay). Attributes of vertices and faces follow.
    Non-finite colors, normals and texture coordinates become 0. Attributes that refer to points by
    index (``edge_index``, …) are dropped if points are.

    Unreferenced vertices, faces of area 0, non-manifold edges and separate components are valid
    input everywhere in this package and stay.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from permutogeo.transforms import RepairMesh
        >>> face = torch.tensor([[0, 1, 0], [1, 2, 1], [2, 0, 9]])
        >>> data, report = RepairMesh().repair(Data(pos=torch.eye(3), face=face))
        >>> data
        Data(pos=[3, 3], face=[3, 1])
        >>> print(report)
        dropped 1 face with an index out of range, 1 duplicate face
        >>> report.duplicate_faces
        1
    """

    def repair(self, data: Data) -> tuple[Data, RepairReport]:
        """Return a repaired copy of ``data`` and a report, without a warning."""
        return _repair(self, copy.copy(data))

    def forward(self, data: Data) -> Data:
        data, report = _repair(self, data)
        if report:
            warnings.warn(f"RepairMesh: {report}", UserWarning, stacklevel=3)
        return data


def _repair(owner: RepairMesh, data: Data) -> tuple[Data, RepairReport]:
    """Repair ``data`` in place (attributes are replaced, tensors are not changed)."""
    require_single(owner, data)
    pos = require_pos(owner, data)
    finite = pos.isfinite().all(dim=1)
    if not finite.any():
        raise ValueError(f"RepairMesh: Expected a finite vertex (got none of {len(pos)})")
    counts: dict[str, Any] = {"nonfinite_vertices": int((~finite).sum())}
    if data.get("face") is not None:
        face = require_faces(owner, data)
        kept, face_counts = _valid_faces(face, finite)
        counts.update(face_counts)
        if face.size(1) > 0 and not kept.any():
            raise ValueError(
                f"RepairMesh: Expected a valid face (got {RepairReport(**counts).dropped})"
            )
        _select_faces(data, face, kept)
    if not finite.all():
        _select_points(data, finite)
    zeroed = tuple(name for name in FINITE_ATTRIBUTES if name != "pos" and _zero(data, name))
    return data, RepairReport(**counts, zeroed=zeroed)


def _valid_faces(face: Tensor, finite: Tensor) -> tuple[Tensor, dict[str, int]]:
    """Return the mask of faces to keep ``[F]`` and the counts of those that are dropped."""
    inside = ((face >= 0) & (face < len(finite))).all(dim=0)
    safe = torch.where(inside, face, 0)  # indices that can be looked up
    at_finite = finite[safe].all(dim=0)
    repeated = (safe == safe.roll(1, 0)).any(dim=0)
    kept = inside & at_finite & ~repeated
    duplicate = torch.zeros_like(kept)
    duplicate[kept] = _duplicates(face[:, kept])
    dropped = {
        "faces_at_nonfinite": inside & ~at_finite,
        "out_of_range_faces": ~inside,
        "degenerate_faces": inside & at_finite & repeated,
        "duplicate_faces": duplicate,
    }
    return kept & ~duplicate, {name: int(mask.sum()) for name, mask in dropped.items()}


def _duplicates(face: Tensor) -> Tensor:
    """Return the mask ``[F]`` of faces with the corners and orientation of an earlier one."""
    if face.size(1) == 0:
        return face.new_zeros(0, dtype=torch.bool)
    first = face.argmin(dim=0)
    a, b, c = (face.gather(0, ((first + k) % 3).unsqueeze(0)).squeeze(0) for k in range(3))
    order = c.argsort(stable=True)
    pair = a * (face.max() + 1) + b
    order = order[pair[order].argsort(stable=True)]
    same = (pair[order][1:] == pair[order][:-1]) & (c[order][1:] == c[order][:-1])
    result = torch.zeros_like(a, dtype=torch.bool)
    result[order[1:]] = same
    return result


def _select_faces(data: Data, face: Tensor, kept: Tensor) -> None:
    if kept.all():
        return
    for name, value in data.to_dict().items():
        if name.startswith("face_") and isinstance(value, Tensor) and len(value) == len(kept):
            data[name] = value[kept.to(value.device)]
    data.face = face[:, kept]


def _select_points(data: Data, kept: Tensor) -> None:
    number = kept.cumsum(0) - 1
    for name, value in data.to_dict().items():
        if is_point_attribute(name, value, len(kept)):
            data[name] = value[kept.to(value.device)]
        elif name.startswith("edge_") or "index" in name:
            del data[name]
    if data.get("face") is not None:
        data.face = number[data["face"]]
    if "num_nodes" in data:
        data.num_nodes = int(kept.sum())


def _zero(data: Data, name: str) -> bool:
    """Set non-finite values of an attribute to 0; returns whether there were any."""
    value = data.get(name)
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return False
    if value.isfinite().all():
        return False
    data[name] = torch.where(value.isfinite(), value, 0.0)
    return True
