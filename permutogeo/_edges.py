"""The edges of triangles; faces are ``[3, F]`` as in PyG."""

from __future__ import annotations

import torch
from torch import Tensor


def unique_pairs(index: Tensor) -> Tensor:
    """Each pair of different vertices once, whatever its direction: ``[2, E]``, lower first."""
    index = index[:, index[0] != index[1]].sort(dim=0).values
    if index.numel() == 0:
        return index
    base = int(index.max()) + 1
    key = torch.unique(index[0] * base + index[1])  # much faster than unique columns
    return torch.stack([key // base, key % base])


def edges(face: Tensor) -> Tensor:
    """Each edge once, ``[2, E]`` with the lower index first."""
    return unique_pairs(torch.cat([face[[0, 1]], face[[1, 2]], face[[2, 0]]], dim=1))


def mean_edge_length(pos: Tensor, face: Tensor) -> Tensor:
    """The mean over all edges, each counted once; 0 for a mesh without."""
    start, end = edges(face)
    if len(start) == 0:
        return pos.new_zeros(())
    return torch.linalg.vector_norm(pos[start] - pos[end], dim=-1).mean()
