"""Repair of damaged meshes and clouds."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.data._fields import FINITE
from permutogeo.transforms._require import (
    is_point_attribute,
    require_faces,
    require_pos,
    require_single,
)

Counts = dict[str, int]


class RepairMesh(BaseTransform):
    r"""Drops what is broken in a mesh or a point cloud, and warns with the counts.

    Vertices that are not finite go, with their faces. Of the faces go those that point to no
    vertex, those with a vertex twice, and those that another one repeats, with the same corners
    the same way round; a face and its reverse are the two sides of a sheet, and stay. Attributes go
    with their vertices and faces; colors, normals and texture coordinates that are not finite
    become 0. What refers to points by their index (``edge_index``, …) is dropped where points are.

    Vertices without faces, faces of area 0, edges of more than two faces and separate parts are no
    damage: all that is here takes them as they are.

    Example:
        >>> import torch, warnings
        >>> from torch_geometric.data import Data
        >>> from permutogeo.transforms import RepairMesh
        >>> face = torch.tensor([[0, 1, 0], [1, 2, 1], [2, 0, 9]])
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     RepairMesh()(Data(pos=torch.eye(3), face=face))
        Data(pos=[3, 3], face=[3, 1])
        >>> print(caught[0].message)
        RepairMesh: dropped 1 face that points nowhere, 1 face that repeats another
    """

    def forward(self, data: Data) -> Data:
        require_single(self, data)
        pos = require_pos(self, data)
        done = _Repairs()
        whole = pos.isfinite().all(dim=1)
        done.count("vertex that is not finite", "vertices that are not finite", ~whole)
        if not whole.any():
            raise ValueError(f"RepairMesh: Expected a finite vertex (got none of {len(pos)})")
        if data.get("face") is not None:
            face = require_faces(self, data)
            _keep_faces(data, face, _sound_faces(face, whole, done))
            if data["face"].size(1) == 0 < face.size(1):
                raise ValueError(f"RepairMesh: Expected a whole face (got {done})")
        if not whole.all():
            _keep_points(data, whole)
        zeroed = [name for name in FINITE[1:] if _zero(data, name)]
        parts = [f"dropped {done}"] * bool(done.counts)
        parts += [f"set values of '{name}' that are not finite to 0" for name in zeroed]
        if parts:
            warnings.warn(f"RepairMesh: {'; '.join(parts)}", UserWarning, stacklevel=3)
        return data


class _Repairs:
    """What was dropped, in words."""

    def __init__(self) -> None:
        self.counts: Counts = {}

    def count(self, one: str, many: str, dropped: Tensor) -> None:
        number = int(dropped.sum())
        if number:
            self.counts[one if number == 1 else many] = number

    def __str__(self) -> str:
        return ", ".join(f"{number:,} {what}" for what, number in self.counts.items())


def _sound_faces(face: Tensor, whole: Tensor, done: _Repairs) -> Tensor:
    """Which faces to keep, ``[F]``."""
    inside = ((face >= 0) & (face < len(whole))).all(dim=0)
    safe = torch.where(inside, face, 0)  # what comes next reads what faces point to
    finite = whole[safe].all(dim=0)
    done.count("face at such a vertex", "faces at such vertices", inside & ~finite)
    done.count("face that points nowhere", "faces that point nowhere", ~inside)
    kept = inside & finite
    twice = (safe == safe.roll(1, 0)).any(dim=0)
    done.count("face with a vertex twice", "faces with a vertex twice", kept & twice)
    kept &= ~twice
    repeated = torch.zeros_like(kept)
    repeated[kept] = _repeated(face[:, kept])
    done.count("face that repeats another", "faces that repeat another", repeated)
    return kept & ~repeated


def _repeated(face: Tensor) -> Tensor:
    """The faces ``[F]`` that have the corners of one before them, the same way round."""
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


def _keep_faces(data: Data, face: Tensor, kept: Tensor) -> None:
    if kept.all():
        return
    for name, value in data.to_dict().items():
        if name.startswith("face_") and isinstance(value, Tensor) and len(value) == len(kept):
            data[name] = value[kept.to(value.device)]
    data.face = face[:, kept]


def _keep_points(data: Data, kept: Tensor) -> None:
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
    """Set what is not finite to 0; whether there was any."""
    value = data.get(name)
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return False
    if value.isfinite().all():
        return False
    data[name] = torch.where(value.isfinite(), value, 0.0)
    return True
