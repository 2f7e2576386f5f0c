"""Sparse permutohedral lattice that is sharded over the ranks of a process group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import torch
from torch import Tensor

from permutogeo import ops
from permutogeo.checks import check_integer, check_matrix, join_batches
from permutogeo.distributed.exchange import Exchange
from permutogeo.distributed.halo import (
    Halo,
    blur_halo_reach,
    blur_needs,
    find_halo,
    stencil_needs,
    stencil_reach,
    without_points,
)
from permutogeo.distributed.points import agree_on_points, common_box, first_corners
from permutogeo.distributed.ranges import CodeRanges, distinct_codes, divide, find_codes, request
from permutogeo.distributed.ranks import Ranks
from permutogeo.distributed.sharded_incidence import ShardedIncidence
from permutogeo.lattice import Incidence, Lattice
from permutogeo.lattice.lattice import GAUSSIAN_TAPS
from permutogeo.lattice.precision import working_dtype
from permutogeo.ops import boxes, stencils
from permutogeo.ops.stencils import tap_variance


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ShardedLattice(Lattice):
    r"""A :class:`permutogeo.Lattice` over the points of all ranks of a process group.

    All ranks call the same methods in the same order, each with its own points; a rank may have
    none. Results equal those of one lattice over all points up to the order of sums, gradients
    included, for any distribution of the points. :func:`partition` returns one with little to
    exchange.

    Each vertex is owned by one rank, and values at vertices are those of the vertices that the rank
    owns. Ranks own ascending ranges of the sorted vertices: values at vertices, concatenated by
    rank, are those of the one lattice. Ranges are balanced by the number of vertices and of points.
    :meth:`splat` sums the points of each rank and then, at the owner, the sums of the ranks in the
    order of the ranks; :meth:`slice` reads the vertices back. ``blur`` and ``convolve``
    read the halo of their stencil in one exchange. Plans of exchanges are made on first use and
    kept by the lattice.

    Layers, models and :class:`permutogeo.nn.DenseCRF` accept it as their ``lattice``. The same
    tensors must require gradients on all ranks.

    Create one with :meth:`build` or :meth:`build_bipartite`, under ``torchrun``.
    """

    ranks: Ranks
    ranges: CodeRanges
    # Vertices of each rank.
    counts: tuple[int, ...]

    @classmethod
    def build(  # type: ignore[override]
        cls,
        feature: Tensor,
        batch: Tensor | None = None,
        group: Any = None,
        taps: Sequence[float] = GAUSSIAN_TAPS,
    ) -> ShardedLattice:
        """Build the lattice of the points of all ranks.

        Args:
            feature: Coordinates of the points of this rank, divided by their bandwidths; on a rank
                without points of shape :math:`(0, d)`.
            batch: Graph of each point; a graph may have points on several ranks.
            group: Process group that shares the lattice; all ranks by default.
            taps: Taps of the blur, see :meth:`permutogeo.Lattice.build`.

        Shapes:
            - feature: :math:`(N, d)`
            - batch: :math:`(N)` int64
        """
        ranks = Ranks(group)
        feature, taps = agree_on_points(ranks, feature, batch, taps)
        return cls._build(ranks, feature, batch, taps)

    @classmethod
    def build_bipartite(  # type: ignore[override]
        cls,
        feature_src: Tensor,
        feature_dst: Tensor,
        batch_src: Tensor | None = None,
        batch_dst: Tensor | None = None,
        group: Any = None,
        taps: Sequence[float] = GAUSSIAN_TAPS,
    ) -> tuple[ShardedLattice, ShardedIncidence]:
        """Build one lattice over input and output points of all ranks.

        See :meth:`permutogeo.Lattice.build_bipartite`; both kinds of points may be on any rank.
        """
        ranks = Ranks(group)
        src, taps = agree_on_points(ranks, feature_src, batch_src, taps, "_src")
        dst, taps = agree_on_points(ranks, feature_dst, batch_dst, taps, "_dst", like=src)
        joined = torch.cat([src, dst.to(src.dtype)])
        both = cls._build(ranks, joined, join_batches(batch_src, batch_dst), taps)
        parts = both.incidence.split([len(src), len(dst)])
        lattice = replace(
            both,
            feature=src,
            batch=batch_src,
            located=parts[0],
            others=(dst, batch_dst),
            _cache={},
        )
        return lattice, lattice.cached("others", lambda: parts[1])

    @classmethod
    def _build(
        cls, ranks: Ranks, feature: Tensor, batch: Tensor | None, taps: tuple[float, ...]
    ) -> ShardedLattice:
        variance = tap_variance(taps)
        box = common_box(ranks, feature, batch, variance)
        weight, vertex, touched = ops.build_in_box(feature, batch, box, variance)
        box = box.to(feature.device)
        code, ranges = divide(ranks, touched, first_corners(vertex, len(touched)))
        exchange, _ = request(ranks, ranges, code, touched)
        graphs = None if batch is None else (batch, boxes.graph(touched, box))
        incidence = ShardedIncidence(vertex, weight, len(code), True, graphs, exchange=exchange)
        counts = ranks.all_gather(torch.tensor([len(code)], device=ranks.device))
        shards: dict[str, Any] = {"ranks": ranks, "ranges": ranges}
        shards["counts"] = tuple(counts[:, 0].tolist())
        return cls(feature, batch, incidence, code, box, taps, **shards)

    @property
    def first_vertex(self) -> int:
        """Number of the first vertex of this rank among the vertices of all ranks."""
        return sum(self.counts[: self.ranks.rank])

    @property
    def total_vertices(self) -> int:
        """Number of vertices of all ranks."""
        return sum(self.counts)

    def locate(self, feature: Tensor, batch: Tensor | None = None) -> ShardedIncidence:
        """Return the incidence of other points of this rank, differentiable in ``feature``."""
        feature, _ = agree_on_points(
            self.ranks, feature, batch, self.taps, like=self.feature, check=self._check_graphs
        )
        local = Lattice.build(feature, batch, self.taps)
        row, exchange = self._request(local.coordinate)
        vertex = torch.cat([row, row.new_full((1,), -1)])[local.vertex.long()]
        return ShardedIncidence(
            vertex.to(torch.int32), local.weight, self.num_vertices, exchange=exchange
        )

    def neighbors(self, radius: int = 1, dilation: int = 1, stencil: str = "full") -> Tensor:
        """Return the vertex at each stencil offset of each own vertex, ``-1`` where absent.

        Vertices are numbered over all ranks; those of this rank begin at :attr:`first_vertex`.

        Shapes:
            - output: :math:`(M, K)` int64, in the order of :func:`permutogeo.stencil`
        """
        self.ranks.agree({"operation": f"neighbors{(radius, dilation, stencil)}"})
        halo = self._stencil_halo(radius, dilation, stencil)
        number = torch.arange(self.num_vertices, device=self.device) + self.first_vertex
        number = torch.cat([halo.exchange.gather(number), number.new_full((1,), -1)])
        return number[halo.owned(halo.lattice.neighbors(radius, dilation, stencil)).long()]

    def blur(self, values: Tensor, transpose: bool = False) -> Tensor:
        wide = self._check_values(f"blur(transpose={transpose})", values)
        halo = self._blur_halo(transpose)
        return halo.apply(lambda rows: halo.lattice.blur(rows, transpose), wide).to(values.dtype)

    def convolve(
        self,
        values: Tensor,
        filter_weight: Tensor,
        radius: int = 1,
        groups: int = 1,
        dilation: int = 1,
        stencil: str = "full",
        shared: bool = False,
    ) -> Tensor:
        options = (radius, groups, dilation, stencil, shared)
        wide = self._check_values(f"convolve{options}", values)
        halo = self._stencil_halo(radius, dilation, stencil)
        dtype = torch.promote_types(values.dtype, filter_weight.dtype)
        return halo.apply_stencil(
            lambda lattice, rows: lattice.convolve(rows, filter_weight, *options), wide
        ).to(dtype)

    apply_filter = convolve

    def has_coarsened(self, coarse: Lattice, at: Incidence) -> bool:
        """Return whether ``coarse`` and ``at`` are a result of :meth:`coarsen`; raise if not."""
        fine_code, coarse_code = at._cache.get("levels", (None, None))
        if fine_code is not self.code or coarse_code is not coarse.code:
            raise ValueError(
                "Expected 'coarse' and 'at' as coarsen() of the sharded lattice returns them "
                f"(got {coarse} and {at} of another lattice)"
            )
        return True

    def neighbor_graph(self, radius: int = 1, dilation: int = 1, stencil: str = "full") -> NoReturn:
        self.incidence.edges()
        raise AssertionError("a sharded incidence has no edges")

    def to(self, device: torch.device | str) -> NoReturn:
        self.incidence.to(device)
        raise AssertionError("a sharded incidence is not moved")

    def around_points(self) -> Lattice:
        """Return the lattice of this rank's points, with the vertices at most as far from their
        corners as the blur reaches along an axis."""
        return self.cached_constant("around points", self._around_points)

    def _around_points(self) -> Lattice:
        touched = self.incidence.spread(self.code)
        corner = boxes.decode(touched, self.box)
        wanted = touched
        for offset in stencils.grid_offsets(self.dim, len(self.taps) // 2, 1, "full"):
            moved = corner + torch.cat([offset, offset.new_zeros(1)]).to(corner.device)
            inside = moved[boxes.contains(moved, self.box)]
            wanted = torch.cat([wanted, boxes.encode(inside, self.box)])
            wanted, _ = distinct_codes(wanted)
        _, position = request(self.ranks, self.ranges, self.code, wanted)
        code = wanted[position >= 0]
        number = find_codes(touched, code).to(torch.int32)
        vertex = number[self.vertex.long()]
        incidence = Incidence(vertex, self.weight, len(code), complete=True)
        return Lattice(self.feature, self.batch, incidence, code, self.box, self.taps)

    def _coarsened(self) -> tuple[ShardedLattice, ShardedIncidence]:
        self.ranks.agree({"operation": "coarsen"})
        build = type(self)._build
        coarse: ShardedLattice
        if self.others is None:
            coarse = build(self.ranks, self.feature / 2, self.batch, self.taps)
        else:
            feature, batch = self.others
            coarse, _ = type(self).build_bipartite(
                self.feature / 2, feature / 2, self.batch, batch, self.ranks.group, self.taps
            )
        # A fine vertex is the midpoint of two coarse ones, see `lattice/coarsening.py`.
        grid, graph = self.coordinate[:, :-1], self.coordinate[:, -1:]
        below = grid.div(2, rounding_mode="floor")
        ends = torch.cat([torch.cat([end, graph], 1) for end in (below, grid - below)])
        row, exchange = coarse._request(ends)
        vertex = row.view(2, -1).t().contiguous().to(torch.int32)
        weight = self.weight.new_full(vertex.shape, 0.5)
        at = ShardedIncidence(vertex, weight, coarse.num_vertices, exchange=exchange)
        at.cached("levels", lambda: (self.code, coarse.code))
        return coarse, at

    def _request(self, coordinate: Tensor) -> tuple[Tensor, Exchange]:
        """Return the exchange that reads the vertices at grid coordinates ``[n, d + 1]``, and the
        row of each among those read, ``-1`` where there is no vertex."""
        inside = boxes.contains(coordinate, self.box)
        wanted, member = distinct_codes(boxes.encode(coordinate[inside], self.box))
        exchange, position = request(self.ranks, self.ranges, self.code, wanted)
        row = position.new_full((len(coordinate),), -1)
        row[inside] = position[member]
        return row, exchange

    def _stencil_halo(self, radius: int, dilation: int, stencil: str) -> Halo:
        check_integer(None, "dilation", dilation)
        taps = stencils.num_taps(self.dim, radius, stencil)

        def find() -> Halo:
            self._check_memory(taps, radius)
            reach = stencil_reach(self.box, radius, dilation, stencil)
            return self._find_halo(reach, stencil_needs(radius, dilation, stencil), True)

        return self.cached(("halo", radius, dilation, stencil), find)

    def _blur_halo(self, transpose: bool) -> Halo:
        def find() -> Halo:
            reach = blur_halo_reach(self.box, len(self.taps))
            return self._find_halo(reach, blur_needs(transpose), False)

        return self.cached(("halo of the blur", transpose), find)

    def _find_halo(
        self, reach: int, needs: Callable[[Lattice, Tensor], Tensor], symmetric: bool
    ) -> Halo:
        return find_halo(self.ranks, without_points(self, self.code), reach, needs, symmetric)

    def _check_values(self, operation: str, values: Tensor) -> Tensor:
        """Check the values of all ranks, and return those of this one in the type of sums."""
        check_matrix(
            None, "values", values, device=self.device, rows=self.num_vertices, of="vertices"
        )
        self.ranks.agree_on_rows(operation, values)
        return values.to(working_dtype(values))
