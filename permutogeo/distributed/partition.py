"""Partition of points in key space, balanced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from permutogeo import ops
from permutogeo.checks import check_integer
from permutogeo.distributed.exchange import Exchange
from permutogeo.distributed.points import agree_on_points, common_box, first_corners
from permutogeo.distributed.ranges import divide, divide_alone
from permutogeo.distributed.ranks import Ranks
from permutogeo.lattice import Lattice
from permutogeo.lattice.lattice import GAUSSIAN_TAPS
from permutogeo.ops.stencils import tap_variance


@dataclass(frozen=True, eq=False)
class Partition:
    """A distribution of points over ranks.

    Args:
        rank: The rank that each point belongs to, ``[N]`` int64.
        exchange: Moves the points, if they are distributed over the ranks of a process group.
    """

    rank: Tensor
    exchange: Exchange | None = None

    def move(self, x: Tensor) -> Tensor:
        """Send rows ``[N, ...]`` to their ranks, and return those that belong to this one.

        All ranks call it with the rows of the points that they gave to :func:`partition`.
        """
        self._moving().ranks.agree_on_rows("move", x)
        return self._moving().gather(x)

    def restore(self, x: Tensor) -> Tensor:
        """Send rows of moved points back, and return them in the order that they had."""
        self._moving().ranks.agree_on_rows("restore", x)
        return self._moving().scatter(x)

    def _moving(self) -> Exchange:
        if self.exchange is None:
            raise ValueError(
                "Expected a partition over the ranks of a process group to move points "
                "(got one with 'num_parts'); select them by 'rank' instead"
            )
        return self.exchange


@torch.no_grad()
def partition(
    feature: Tensor,
    batch: Tensor | None = None,
    group: Any = None,
    num_parts: int | None = None,
) -> Partition:
    """Partition points into ranges of their lattice keys, balanced by points and vertices.

    A :class:`ShardedLattice` over points that are distributed in this way has little to exchange:
    the ranks own the vertices around their points.

    Args:
        feature: Coordinates of the points of this rank, divided by their bandwidths.
        batch: Graph of each point.
        group: Process group whose ranks share the points; all ranks by default. They all call the
            function.
        num_parts: Number of parts, for points that are all in this process. No process group is
            needed then.

    Shapes:
        - feature: :math:`(N, d)`
        - batch: :math:`(N)` int64

    Example:

        >>> feature = torch.rand(1000, 3) * 20
        >>> rank = partition(feature, num_parts=4).rank
        >>> counts = rank.bincount()
        >>> len(counts), bool(counts.max() < 400)
        (4, True)
    """
    if num_parts is not None:
        check_integer(None, "num_parts", num_parts)
        lattice = Lattice.build(feature, batch)
        load = first_corners(lattice.vertex, lattice.num_vertices)
        owner = divide_alone(lattice.code, load, num_parts).owner(lattice.code)
        return Partition(owner[lattice.vertex[:, 0].long()])
    ranks = Ranks(group)
    feature, taps = agree_on_points(ranks, feature.detach(), batch, GAUSSIAN_TAPS)
    variance = tap_variance(taps)
    box = common_box(ranks, feature, batch, variance)
    _, vertex, touched = ops.build_in_box(feature, batch, box, variance)
    _, ranges = divide(ranks, touched, first_corners(vertex, len(touched)))
    rank = ranges.owner(touched)[vertex[:, 0].long()]
    send = [(rank == part).nonzero()[:, 0] for part in range(ranks.size)]
    return Partition(rank, Exchange.push(ranks, len(rank), send))
