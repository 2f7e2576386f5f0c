"""Diagonal of slice∘filter∘splat: the contribution of a point to its own filtered value.

``K_ii = sum_ab weight_ia B(a -> b) weight_ib`` over pairs of corners of the point's simplex.
Corners differ by at most one step along some of the ``d + 1`` axes, so that few entries of the
filter ``B`` occur.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from permutogeo.lattice.lattice import Lattice
from permutogeo.lattice.precision import working_dtype
from permutogeo.ops import stencils

# Points per chunk: each has (d + 1)^2 pairs of corners.
_CHUNK = 1 << 14


def blur_diagonal(lattice: Lattice) -> Tensor:
    """Return the diagonal of ``slice(blur(splat(x)))``, ``[N]``, differentiable in the features.

    Example:

        >>> lattice = Lattice.build(torch.tensor([[0.3, 0.1], [9.0, 9.0]]))
        >>> self_term = blur_diagonal(lattice)
        >>> response = lattice.slice(lattice.blur(lattice.splat(torch.ones(2, 1))))
        >>> torch.allclose(self_term, response[:, 0])  # the points share no vertex
        True
    """
    lattice = lattice.around_points()
    step = _AxisSteps(lattice)
    return _sum_of_pairs(lattice, lambda vertex, there, back: step.paths(vertex, there))


def convolve_diagonal(
    lattice: Lattice, filter_weight: Tensor, radius: int = 1, stencil: str = "full"
) -> Tensor:
    """Return the diagonal of ``slice(convolve(splat(x), filter_weight, shared=True))``, ``[N]``.

    Shapes:
        - filter_weight: :math:`(K)`, one scalar filter
    """
    lattice = lattice.around_points()
    place = _places(lattice.dim, radius, stencil).to(filter_weight.device)
    padded = torch.cat([filter_weight, filter_weight.new_zeros(1)])
    # A convolution gathers: b reads a at the offset from b to a.
    return _sum_of_pairs(lattice, lambda vertex, there, back: padded[place[back]])


def _sum_of_pairs(lattice: Lattice, entry: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
    """Sum over pairs of corners, in chunks of points.

    Args:
        entry: Entries of the filter ``[n, D, D]``, given the source vertices ``[n, D, 1]`` and the
            axes from source to target and from target to source ``[n, D, D]``, as bits.
    """
    dtype = working_dtype(lattice.weight)
    if lattice.num_points == 0:
        return lattice.weight.new_zeros(0, dtype=dtype)
    # Points of one simplex have the same entries.
    simplex, member = torch.unique(lattice.vertex.long(), dim=0, return_inverse=True)
    passed = torch.cat([entry(*part).to(dtype) for part in _pairs(lattice, simplex)])
    sums = [
        torch.einsum("na,nab,nb->n", weight, passed[which], weight)
        for weight, which in zip(
            lattice.weight.to(dtype).split(_CHUNK), member.split(_CHUNK), strict=True
        )
    ]
    return torch.cat(sums)


def _pairs(lattice: Lattice, simplex: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield chunks of simplices with the axes between each pair of corners, as bits."""
    coordinate = lattice.coordinate[:, :-1]
    bit = 2 ** torch.arange(lattice.dim, device=coordinate.device)
    every = 2 ** (lattice.dim + 1) - 1
    for vertex in simplex.split(_CHUNK):
        # Corners ascend by one axis each: the axes of a corner contain those of the previous ones.
        corner = coordinate[vertex]
        axes = ((corner - corner[:, :1]) * bit).sum(2)
        between = axes.unsqueeze(1) ^ axes.unsqueeze(2)
        # Steps along all axes cancel: stepping down an axis is stepping up all others.
        down = axes.unsqueeze(1) < axes.unsqueeze(2)
        there = torch.where(down, every ^ between, between)
        yield vertex.unsqueeze(2), there, there.transpose(1, 2)


def _places(dim: int, radius: int, stencil: str) -> Tensor:
    """Return the index in a stencil of each set of axes, ``[2^(d + 1)]``; its size if absent."""
    offsets = stencils.grid_offsets(dim, radius, 1, stencil).tolist()
    found = {tuple(offset): k for k, offset in enumerate(offsets)}
    sets = (torch.arange(2 ** (dim + 1)).unsqueeze(1) >> torch.arange(dim + 1)) & 1
    steps = (sets[:, :-1] - sets[:, -1:]).tolist()
    return torch.tensor([found.get(tuple(step), len(offsets)) for step in steps])


class _AxisSteps:
    """Steps of the separable blur along each axis, over existing vertices only."""

    def __init__(self, lattice: Lattice):
        self.taps, self.dim = lattice.taps, lattice.dim
        self.radius = len(lattice.taps) // 2
        columns = stencils.axis_columns(self.dim, self.radius).long().to(lattice.device)
        neighbors = lattice.neighbors(self.radius, stencil="axis").long()
        stay = torch.arange(lattice.num_vertices, device=lattice.device)
        # One table [M + 1, 2 radius + 1] per axis, indexed by step; the last row stands for absent.
        self.tables = []
        for column in columns:
            ahead, behind = neighbors[:, column[0::2]], neighbors[:, column[1::2]]
            table = torch.cat([behind.flip(1), stay.unsqueeze(1), ahead], 1)
            self.tables.append(torch.cat([table, table.new_full((1, table.shape[1]), -1)]))

    def paths(self, vertex: Tensor, there: Tensor) -> Tensor:
        """Entry of the blur from each vertex to the one along axes ``there``, over all paths."""
        total = torch.zeros(there.shape, dtype=torch.float64, device=there.device)
        for more in range(-self.radius, self.radius + 1):
            total += self._path(vertex, there, more)
        return total / sum(tap ** (self.dim + 1) for tap in self.taps)

    def _path(self, vertex: Tensor, there: Tensor, more: int) -> Tensor:
        """Weight of one path: ``more`` steps along every axis, which cancel, and one step along
        each of ``there``."""
        passed = torch.ones(there.shape, dtype=torch.float64, device=there.device)
        taps = passed.new_tensor([*self.taps, 0.0])  # the last one is out of range
        at = vertex.expand(there.shape)
        for axis, table in enumerate(self.tables):
            step = ((there >> axis) & 1) + more + self.radius
            passed = passed * taps[step]
            at = table[at, step.clamp(max=2 * self.radius)]
        return torch.where(at < 0, 0.0, passed)
