"""What a transform asks of its input, in one sentence where it is not there."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from permutogeo.data._fields import listed


def missing(transform: object, name: str, data: Data) -> ValueError:
    """The error of an attribute that is not there."""
    kind = type(transform).__name__
    return ValueError(f"{kind}: Expected '{name}' in data (it has {listed(data)})")


def require(transform: object, data: Data, name: str) -> Tensor:
    """The tensor ``name`` of ``data``."""
    if not isinstance(data, Data):
        kind = type(transform).__name__
        raise TypeError(f"{kind}: Expected torch_geometric.data.Data (got {type(data).__name__})")
    value = data.get(name)
    if not isinstance(value, Tensor):
        raise missing(transform, name, data)
    return value


def require_pos(transform: object, data: Data, dims: tuple[int, ...] = (2, 3)) -> Tensor:
    """Positions ``[N, dim]`` as floating numbers."""
    pos = require(transform, data, "pos")
    if pos.dim() != 2 or pos.size(1) not in dims or not pos.is_floating_point():
        shape = f"[N, {'|'.join(map(str, dims))}]"
        got = f"{list(pos.shape)} {pos.dtype}"
        kind = type(transform).__name__
        raise ValueError(f"{kind}: Expected floating 'pos' of shape {shape} (got {got})")
    return pos


def require_faces(transform: object, data: Data) -> Tensor:
    """Faces ``[3, F]``, wherever they point."""
    face = require(transform, data, "face")
    if face.dim() != 2 or face.size(0) != 3 or face.dtype != torch.int64:
        kind, got = type(transform).__name__, f"{list(face.shape)} {face.dtype}"
        raise ValueError(f"{kind}: Expected 'face' of shape [3, F] and type int64 (got {got})")
    return face


def require_mesh(transform: object, data: Data) -> tuple[Tensor, Tensor]:
    """Positions ``[N, 3]`` and faces ``[3, F]`` that refer to them."""
    pos = require_pos(transform, data, dims=(3,))
    face = require_faces(transform, data)
    if face.numel() and not 0 <= int(face.min()) <= int(face.max()) < len(pos):
        worst = int(face.min()) if int(face.min()) < 0 else int(face.max())
        kind, expected = type(transform).__name__, f"'face' indices from 0 to {len(pos) - 1}"
        raise ValueError(f"{kind}: Expected {expected} (got {worst})")
    return pos, face


def require_single(transform: object, data: Data) -> None:
    """Refuse a batch where the number of points changes: its slices would no longer fit."""
    if isinstance(data, Batch):
        kind = type(transform).__name__
        raise ValueError(f"{kind}: Expected one graph, before batching (got a Batch)")


def is_point_attribute(name: str, value: object, num_points: int) -> bool:
    """Whether row i of ``value`` belongs to point i."""
    if not isinstance(value, Tensor) or value.dim() == 0 or value.size(0) != num_points:
        return False
    return not name.startswith("face") and "index" not in name
