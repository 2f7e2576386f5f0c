"""Convolution by the operator that suits the filter and the neighbors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from permutogeo import ops
from permutogeo.runtime.memory import total_memory

if TYPE_CHECKING:
    from permutogeo.lattice.lattice import Lattice

Edges = tuple[Tensor, Tensor]


def convolve(
    values: Tensor,
    filter_weight: Tensor,
    neighbors: Tensor,
    opposite: Tensor,
    groups: int,
    shared: bool,
    cached: Callable[[Callable[[], Any]], Any],
) -> Tensor:
    """Return the convolution of values ``[M, C]`` with a filter bank, or a scalar filter if
    ``shared``.

    Args:
        neighbors: Neighbor table ``[M, K]``.
        opposite: Index of the negative of each offset.
        groups: Blocked connections from input to output channels.
        shared: Whether all channels share the filter.
        cached: Returns what its argument makes, which depends on ``neighbors`` alone, made once.
    """
    dtype = values.dtype
    if dtype != filter_weight.dtype or dtype not in (torch.float32, torch.float64):
        dtype = torch.promote_types(dtype, filter_weight.dtype)
        working = torch.float64 if dtype == torch.float64 else torch.float32
        values, filter_weight = values.to(working), filter_weight.to(working)
    if shared or (groups == values.shape[1] == filter_weight.shape[2]):
        channelwise = filter_weight.reshape(neighbors.shape[1], -1)
        out = ops.convolve_channelwise(values, channelwise, neighbors, opposite)
    elif groups == 1 and _is_sparse(neighbors, filter_weight):
        edges: Edges = cached(lambda: _edges(neighbors))
        count = neighbors.shape[0]
        out = ops.convolve_edges(values, filter_weight, *edges, *edges, opposite, count)
    else:
        out = ops.convolve(values, filter_weight, neighbors, opposite, groups)
    return out if out.dtype == dtype else out.to(dtype)


def _is_sparse(neighbors: Tensor, filter_weight: Tensor) -> bool:
    """Return whether to convolve the neighbors that are present alone."""
    if torch.compiler.is_compiling():
        return False  # the number of edges is data
    return ops.edges_pay(neighbors, *filter_weight.shape[1:])


def _edges(neighbors: Tensor) -> Edges:
    """Return the edges of a neighbor table for ``ops.convolve_edges``."""
    row = torch.arange(neighbors.shape[0], dtype=torch.int32, device=neighbors.device)
    return ops.sort_edges(neighbors, row, row)


def check_memory(lattice: Lattice, taps: int, radius: int) -> None:
    """Raise if the neighbor table of a stencil would not fit the memory."""
    if torch.compiler.is_compiling():
        return
    needed, available = 4 * taps * lattice.num_vertices, total_memory(lattice.device)
    if needed > available:
        raise ValueError(
            f"A stencil of radius {radius} has {taps} taps in {lattice.dim} dimensions: the "
            f"neighbors of {lattice.num_vertices} vertices would take {needed / 2**30:.0f} GiB of "
            f"{available / 2**30:.0f}; use stencil='axis' or a smaller radius"
        )
