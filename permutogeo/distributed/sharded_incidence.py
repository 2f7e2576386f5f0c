"""Incidence of the points of a rank and the vertices of all ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import torch
import torch.distributed as dist
from torch import Tensor

from permutogeo.distributed.exchange import Exchange
from permutogeo.distributed.ranks import sum_over_ranks
from permutogeo.lattice.incidence import Incidence


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ShardedIncidence(Incidence):
    """Points of this rank on a lattice that is sharded over ranks.

    ``vertex`` refers to the rows that this rank reads from the owners of the vertices, while
    ``num_vertices`` counts the vertices that this rank owns. A splat sums the points of this rank
    into those rows and sends them to their owners, which sum what they get; a slice reads the rows
    back from their owners.

    Args:
        exchange: The exchange of the rows that ``vertex`` refers to.
    """

    exchange: Exchange

    @property
    def sharded(self) -> bool:
        return True

    @property
    def num_rows(self) -> int:
        return self.exchange.num_read

    def spread(self, values: Tensor) -> Tensor:
        self.exchange.ranks.agree_on_rows("slice", values)
        return self.exchange.gather(values)

    def collect(self, rows: Tensor) -> Tensor:
        self.exchange.ranks.agree_on_rows("splat", rows)
        return self.exchange.scatter(rows)

    def pull(self, x: Tensor) -> Tensor:
        self.exchange.ranks.agree_on_rows("pull", x)
        return self._pulled()[0].gather(x)

    def pulled_vertex(self) -> Tensor:
        return self._pulled()[1]

    def total(self, x: Tensor) -> Tensor:
        return sum_over_ranks(x, self.exchange.ranks)

    def largest(self, x: Tensor) -> Tensor:
        return self.exchange.ranks.reduce(x, dist.ReduceOp.MAX)

    def edges(self) -> NoReturn:
        raise ValueError(
            "Expected a lattice of one process for message passing over its edges (got a sharded "
            "one, whose edges end on other ranks); leave out hooks and explainers, or use Lattice"
        )

    def to(self, device: torch.device | str) -> NoReturn:
        raise ValueError(
            "Expected to stay on the device of its process group (got a sharded lattice); build "
            f"it from features on {device}"
        )

    def _pulled(self) -> tuple[Exchange, Tensor]:
        """Return the exchange of the points, and the vertices of those that it brings."""
        return self.cached("pulled", self._make_pulled)

    @torch.no_grad()
    def _make_pulled(self) -> tuple[Exchange, Tensor]:
        exchange, ranks = self.exchange, self.exchange.ranks
        device = self.vertex.device
        row = exchange.gather(torch.arange(exchange.num_rows, device=device))
        # Absent corners, of index -1, read the last row.
        absent = row.new_full((1,), -1)
        vertex = self.vertex.long()
        owner, row = (torch.cat([part, absent])[vertex] for part in (exchange.owner, row))
        send = [(owner == rank).any(1).nonzero()[:, 0] for rank in range(ranks.size)]
        points = Exchange.push(ranks, self.num_points, send)
        ends = [row[rows].masked_fill(owner[rows] != rank, -1) for rank, rows in enumerate(send)]
        counts = [len(rows) for rows in send]
        return points, ranks.exchange(torch.cat(ends), counts, points.receive).to(torch.int32)
