"""What a filter on the lattice returns to the point itself: the diagonal of slice∘filter∘splat.

A point's value arrives at each corner of its simplex, travels from corner to corner, and is read
back: ``K_ii = sum_ab weight_ia B(a -> b) weight_ib``. The corners of a simplex differ by at most
one step along some of the ``d + 1`` axes, so that few entries of the filter are concerned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from permutogeo import stencils
from permutogeo.checks import working_dtype
from permutogeo.lattice import Lattice

# Points worked on at a time: each has (d + 1)^2 pairs of corners.
_CHUNK = 1 << 14


def blur_diagonal(lattice: Lattice) -> Tensor:
    """The diagonal of ``slice(blur(splat(x)))``, ``[N]``, differentiable in the features.

    Example:

        >>> lattice = Lattice.build(torch.tensor([[0.3, 0.1], [9.0, 9.0]]))
        >>> self_term = blur_diagonal(lattice)
        >>> response = lattice.slice(lattice.blur(lattice.splat(torch.ones(2, 1))))
        >>> torch.allclose(self_term, response[:, 0])  # points too far apart to meet
        True
    """
    step = _AxisSteps(lattice)
    return _sum_of_pairs(lattice, lambda vertex, there, back: step.paths(vertex, there))


def convolve_diagonal(
    lattice: Lattice, filter_weight: Tensor, radius: int = 1, stencil: str = "full"
) -> Tensor:
    """The diagonal of ``slice(convolve(splat(x), filter_weight, shared=True))``, ``[N]``.

    Shapes:
        - filter_weight: :math:`(K)`, one scalar filter
    """
    place = _places(lattice.dim, radius, stencil).to(filter_weight.device)
    padded = torch.cat([filter_weight, filter_weight.new_zeros(1)])
    # The filter gathers: what goes from a to b is read at the offset from b to a.
    return _sum_of_pairs(lattice, lambda vertex, there, back: padded[place[back]])


def _sum_of_pairs(lattice: Lattice, entry: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
    """Sum over pairs of corners, some points at a time.

    Args:
        entry: From the source vertices ``[n, D, 1]`` and the axes to step along, as bits, there and
            back ``[n, D, D]``, to the filter's entries ``[n, D, D]``.
    """
    dtype = working_dtype(lattice.weight)
    if lattice.num_points == 0:
        return lattice.weight.new_zeros(0, dtype=dtype)
    # Points of one simplex share the entries.
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
    """For each pair of corners of some simplices the axes from one to the other, as bits."""
    coordinate = lattice._coordinate()[:, :-1]
    bit = 2 ** torch.arange(lattice.dim, device=coordinate.device)
    every = 2 ** (lattice.dim + 1) - 1
    for vertex in simplex.split(_CHUNK):
        # Corners ascend, by one more axis each: the axes of a corner hold those of the ones below.
        corner = coordinate[vertex]
        axes = ((corner - corner[:, :1]) * bit).sum(2)
        between = axes.unsqueeze(1) ^ axes.unsqueeze(2)
        # Steps along all axes cancel, so that a way down is a way up along the other axes.
        down = axes.unsqueeze(1) < axes.unsqueeze(2)
        there = torch.where(down, every ^ between, between)
        yield vertex.unsqueeze(2), there, there.transpose(1, 2)


def _places(dim: int, radius: int, stencil: str) -> Tensor:
    """Where in a stencil each set of axes stands, ``[2^(d + 1)]``; its size if nowhere."""
    offsets = stencils.grid_offsets(dim, radius, 1, stencil).tolist()
    found = {tuple(offset): k for k, offset in enumerate(offsets)}
    sets = (torch.arange(2 ** (dim + 1)).unsqueeze(1) >> torch.arange(dim + 1)) & 1
    steps = (sets[:, :-1] - sets[:, -1:]).tolist()
    return torch.tensor([found.get(tuple(step), len(offsets)) for step in steps])


class _AxisSteps:
    """The blur goes axis by axis, and only through vertices that exist."""

    def __init__(self, lattice: Lattice):
        self.taps, self.dim = lattice.taps, lattice.dim
        self.radius = len(lattice.taps) // 2
        columns = stencils.axis_columns(self.dim, self.radius).long().to(lattice.device)
        neighbors = lattice.neighbors(self.radius, stencil="axis").long()
        stay = torch.arange(lattice.num_vertices, device=lattice.device)
        # One table [M + 1, 2 radius + 1] an axis, by step; the last row is absent, as is row -1.
        self.tables = []
        for column in columns:
            ahead, behind = neighbors[:, column[0::2]], neighbors[:, column[1::2]]
            table = torch.cat([behind.flip(1), stay.unsqueeze(1), ahead], 1)
            self.tables.append(torch.cat([table, table.new_full((1, table.shape[1]), -1)]))

    def paths(self, vertex: Tensor, there: Tensor) -> Tensor:
        """What the blur passes on along axes ``there``, by all the ways there are."""
        total = torch.zeros(there.shape, dtype=torch.float64, device=there.device)
        for more in range(-self.radius, self.radius + 1):
            total += self._path(vertex, there, more)
        return total / sum(tap ** (self.dim + 1) for tap in self.taps)

    def _path(self, vertex: Tensor, there: Tensor, more: int) -> Tensor:
        """One way: ``more`` steps along every axis, which cancel, and one along those of
        ``there``."""
        passed = torch.ones(there.shape, dtype=torch.float64, device=there.device)
        taps = passed.new_tensor([*self.taps, 0.0])  # the last: one step too far
        at = vertex.expand(there.shape)
        for axis, table in enumerate(self.tables):
            step = ((there >> axis) & 1) + more + self.radius
            passed = passed * taps[step]
            at = table[at, step.clamp(max=2 * self.radius)]
        return torch.where(at < 0, 0.0, passed)
