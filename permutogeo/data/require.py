"""Checks of the attributes that transforms and models need in :class:`Data`.

Each takes the transform (or model) whose class name precedes the message.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from permutogeo.checks import fail
from permutogeo.data.fields import attribute_names


def missing_attribute(owner: object, name: str, data: Data) -> ValueError:
    """Return the error for an attribute that ``data`` does not have."""
    kind = type(owner).__name__
    return ValueError(f"{kind}: Expected '{name}' in data (it has {attribute_names(data)})")


def require(owner: object, data: Data, name: str) -> Tensor:
    """Return the tensor ``name`` of ``data``; raises if there is none."""
    if not isinstance(data, Data):
        got = type(data).__name__
        fail(owner, f"Expected torch_geometric.data.Data (got {got})", TypeError)
    value = data.get(name)
    if not isinstance(value, Tensor):
        raise missing_attribute(owner, name, data)
    return value


def require_pos(owner: object, data: Data, dims: tuple[int, ...] = (2, 3)) -> Tensor:
    """Return the floating-point positions ``[N, dim]``; raises for other shapes and types."""
    pos = require(owner, data, "pos")
    if pos.dim() != 2 or pos.size(1) not in dims or not pos.is_floating_point():
        shape = f"[N, {'|'.join(map(str, dims))}]"
        got = f"{list(pos.shape)} {pos.dtype}"
        fail(owner, f"Expected floating 'pos' of shape {shape} (got {got})")
    return pos


def require_faces(owner: object, data: Data) -> Tensor:
    """Return the faces ``[3, F]``; their indices are not checked."""
    face = require(owner, data, "face")
    if face.dim() != 2 or face.size(0) != 3 or face.dtype != torch.int64:
        got = f"{list(face.shape)} {face.dtype}"
        fail(owner, f"Expected 'face' of shape [3, F] and type int64 (got {got})")
    return face


def require_mesh(owner: object, data: Data) -> tuple[Tensor, Tensor]:
    """Return positions ``[N, 3]`` and faces ``[3, F]``; raises if an index is out of range."""
    pos = require_pos(owner, data, dims=(3,))
    face = require_faces(owner, data)
    if face.numel() and not 0 <= int(face.min()) <= int(face.max()) < len(pos):
        worst = int(face.min()) if int(face.min()) < 0 else int(face.max())
        fail(owner, f"Expected 'face' indices from 0 to {len(pos) - 1} (got {worst})")
    return pos, face


def require_single(owner: object, data: Data) -> None:
    """Raise for a batch; the slices of a batch would be wrong once the number of points changes."""
    if isinstance(data, Batch):
        fail(owner, "Expected one graph, before batching (got a Batch)")


def is_point_attribute(name: str, value: object, num_points: int) -> bool:
    """Whether ``value`` is a tensor with one row for each point."""
    if not isinstance(value, Tensor) or value.dim() == 0 or value.size(0) != num_points:
        return False
    return not name.startswith("face") and "index" not in name
