"""Halo of a stencil: the vertices of other ranks that the vertices of a rank read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from permutogeo.distributed.exchange import Exchange
from permutogeo.distributed.ranks import Ranks
from permutogeo.lattice import Incidence, Lattice
from permutogeo.ops import stencils

_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class _Rim:
    """The vertices on both sides of the border of a rank.

    Args:
        lattice: The lattice of these vertices, without points.
        border: Those of this rank in it.
        ghost: Those of other ranks in it.
        row: Those of this rank among all that it owns.
    """

    lattice: Lattice
    border: Tensor
    ghost: Tensor
    row: Tensor


@dataclass(frozen=True)
class Halo:
    """The vertices of a rank together with those that a stencil reads around them.

    Args:
        lattice: The lattice of these vertices, without points.
        exchange: Brings their values.
        own: The lattice of the vertices of this rank alone.
        border: Which of these have neighbors on other ranks, ``[M]`` bool; ``None`` if the reads
            are not symmetric.
    """

    lattice: Lattice
    exchange: Exchange
    own: Lattice
    border: Tensor | None

    def apply(self, function: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
        """Apply a function of values at the vertices of :attr:`lattice` to those of this rank.

        Results at vertices of other ranks, which may lack neighbors here, are dropped.
        """
        return self.owned(function(self.exchange.gather(values)))

    def apply_stencil(
        self, function: Callable[[Lattice, Tensor], Tensor], values: Tensor
    ) -> Tensor:
        """Apply a function that is linear in the values and reads a stencil once.

        It is applied to the vertices of this rank while the values of others are on their way, then
        to those of others. Results are the sum. The backward pass goes the other way round: it
        sends the gradients of the other ranks' vertices before it computes those of its own.

        Args:
            function: Called with a lattice and values at its vertices.
        """
        finish = self._ghosts.start_gather(values)
        out = function(self.own, values)
        rim = self._rim
        read = values.new_zeros(rim.lattice.num_vertices, values.shape[1])
        added = function(rim.lattice, read.index_copy(0, rim.ghost, finish()))
        return out.index_add(0, rim.row, added[rim.border])

    @cached_property
    def _ghosts(self) -> Exchange:
        return self.exchange.without_own()

    @cached_property
    def _rim(self) -> _Rim:
        assert self.border is not None
        kept = torch.ones(self.lattice.num_vertices, dtype=torch.bool, device=self.border.device)
        mine = torch.zeros_like(kept)
        self.owned(mine)[:] = True
        self.owned(kept)[:] = self.border
        border = mine[kept]
        lattice = without_points(self.own, self.lattice.code[kept])
        return _Rim(lattice, *(each.nonzero()[:, 0] for each in (border, ~border, self.border)))

    def owned(self, rows: Tensor) -> Tensor:
        """Return the rows of the vertices that this rank owns."""
        return rows[self.exchange.first : self.exchange.last]


@torch.no_grad()
def find_halo(
    ranks: Ranks,
    owned: Lattice,
    reach: int,
    needed: Callable[[Lattice, Tensor], Tensor],
    symmetric: bool,
) -> Halo:
    """Find the halo of this rank, from the codes alone.

    A vertex may be read by the ranks that own a code at most ``reach`` from its own. They get its
    code, and say whether they need it.

    Args:
        owned: The vertices that this rank owns, without points.
        reach: Largest step of the stencil, in the first word of a code.
        needed: Returns which vertices of a lattice the marked ones read, ``[M]`` bool.
        symmetric: Whether vertices read those that read them, as by a stencil.
    """
    send = _candidates(ranks, owned.code[:, 0].contiguous(), reach)
    wide = Exchange.push(ranks, owned.num_vertices, send)
    code = wide.gather(owned.code)  # sorted, since ranks own ascending ranges
    mark = torch.zeros(len(code), dtype=torch.bool, device=code.device)
    mark[wide.first : wide.last] = True
    wider = without_points(owned, code)
    own, mark = mark, needed(wider, mark) | mark
    border = needed(wider, mark & ~own)[own] if symmetric else None
    kept = wide.send_back(mark.to(torch.uint8))
    send = [rows[keep.bool()] for rows, keep in zip(wide.send, kept, strict=True)]
    receive = [int(part.sum()) for part in mark.split(wide.receive)]
    exchange = Exchange(ranks, owned.num_vertices, send, receive)
    return Halo(without_points(owned, code[mark]), exchange, owned, border)


def without_points(like: Lattice, code: Tensor) -> Lattice:
    """Return the lattice of these vertices, in the box of ``like`` and without points."""
    feature = like.feature.detach()[:0]
    vertex = torch.empty(0, like.dim + 1, dtype=torch.int32, device=code.device)
    incidence = Incidence(vertex, feature.new_empty(vertex.shape), len(code), complete=True)
    return Lattice(feature, None, incidence, code, like.box, like.taps)


def stencil_reach(box: Tensor, radius: int, dilation: int, stencil: str) -> int:
    """Return the largest step of a stencil in the first word of a code."""
    offsets = stencils.grid_offsets(len(box) - 1, radius, dilation, stencil)
    extent = offsets.abs().amax(0).tolist()
    return _step(box, extent)


def blur_halo_reach(box: Tensor, taps: int) -> int:
    """Return the largest step of the blur, over all axes, in the first word of a code."""
    # A coordinate changes along its own axis and along the last one.
    return _step(box, [2 * (taps // 2)] * (len(box) - 1))


def stencil_needs(radius: int, dilation: int, stencil: str) -> Callable[[Lattice, Tensor], Tensor]:
    """Return the function ``needed`` of :func:`find_halo` for a stencil."""

    def needed(lattice: Lattice, mark: Tensor) -> Tensor:
        rows = lattice.neighbors(radius, dilation, stencil)[mark]
        out = torch.zeros(len(mark) + 1, dtype=torch.bool, device=mark.device)
        for column in rows.unbind(1):  # absent neighbors, of index -1, mark the last entry
            out[column.long()] = True
        return out[:-1]

    return needed


def blur_needs(transpose: bool) -> Callable[[Lattice, Tensor], Tensor]:
    """Return the function ``needed`` of :func:`find_halo` for the separable blur."""

    def needed(lattice: Lattice, mark: Tensor) -> Tensor:
        radius = len(lattice.taps) // 2
        neighbors = lattice.neighbors(radius, stencil="axis")
        axes = stencils.axis_columns(lattice.dim, radius).tolist()
        # From the last axis of the blur to the first: each reads both sides.
        for columns in axes if transpose else reversed(axes):
            padded = torch.cat([mark, mark.new_zeros(1)])
            for column in columns:
                mark = mark | padded[neighbors[:, column].long()]
        return mark

    return needed


def _step(box: Tensor, extent: list[int]) -> int:
    return sum(e * stride for e, stride in zip(extent, box[:-1, 2].tolist(), strict=True))


def _candidates(ranks: Ranks, code: Tensor, reach: int) -> list[Tensor]:
    """Return the rows that each rank may read; this one reads all of its own."""
    every = torch.arange(len(code), device=code.device)
    span = code[[0, -1]] if len(code) else code.new_tensor([_LARGEST, -1])
    send = []
    for rank, (first, last) in enumerate(ranks.all_gather(span).tolist()):
        if rank == ranks.rank:
            send.append(every)
        elif last < 0 or len(code) == 0:
            send.append(every[:0])
        else:
            bounds = (max(first - reach, -_LARGEST), min(last + reach, _LARGEST))
            low, high = code.new_tensor(bounds).unbind()
            begin = int(torch.searchsorted(code, low))
            send.append(every[begin : int(torch.searchsorted(code, high, right=True))])
    return send
