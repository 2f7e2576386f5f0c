"""The lattice: topology over points, built once and used by every layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from permutogeo import ops, stencils
from permutogeo._coarse import midpoints
from permutogeo._kept import Keeping
from permutogeo.checks import (
    check_alike,
    check_filter,
    check_points,
    check_rows,
    check_taps,
    join_batches,
    tap_variance,
    total_memory,
    working_dtype,
)
from permutogeo.incidence import Incidence, check_incidence
from permutogeo.ops import box as boxes
from permutogeo.ops.build import check_points as check_values

GAUSSIAN_TAPS = (0.5, 1.0, 0.5)


@dataclass(frozen=True, eq=False, repr=False)
class Lattice(Keeping):
    r"""A sparse permutohedral lattice laid over points, after `"Learning Sparse High Dimensional
    Filters: Image Filtering, Dense CRFs and Bilateral Neural Networks"
    <https://arxiv.org/abs/1503.04949>`_.

    Each point lies in one simplex of the lattice; the corners of those simplices are its vertices,
    and only they exist. Values move from points to vertices (:meth:`splat`), are filtered there
    (:meth:`blur`, :meth:`convolve`) and move back (:meth:`slice`). Vertices are numbered by graph
    and then by position, whatever the order of the points.

    Make one with :meth:`build` or :meth:`build_bipartite`.

    Example:

        >>> feature = torch.tensor([[0.0, 0.0], [0.3, 0.1], [5.0, 5.0]])
        >>> lattice = Lattice.build(feature)
        >>> lattice
        Lattice(dim=2, num_points=3, num_vertices=7)
        >>> lattice.slice(lattice.blur(lattice.splat(torch.ones(3, 1)))).shape
        torch.Size([3, 1])
    """

    feature: Tensor
    batch: Tensor | None
    incidence: Incidence
    code: Tensor
    box: Tensor
    taps: tuple[float, ...] = GAUSSIAN_TAPS
    # The other points that a bipartite lattice was built over: feature and batch.
    others: tuple[Tensor, Tensor | None] | None = None
    _cache: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def build(
        cls, feature: Tensor, batch: Tensor | None = None, taps: Sequence[float] = GAUSSIAN_TAPS
    ) -> Lattice:
        """Lay a lattice over points.

        Args:
            feature: Coordinates of the points, divided by their bandwidths.
            batch: Graph of each point, in any order; graphs never share a vertex.
            taps: The blur along each axis: symmetric, of odd length. The lattice is scaled so that
                its Gaussian has standard deviation 1 in feature units.

        Shapes:
            - feature: :math:`(N, d)`
            - batch: :math:`(N)` int64
        """
        feature = check_points("feature", feature, "batch", batch)
        if feature.device.type == "meta":
            raise ValueError("Expected 'feature' with data to build a lattice from (got meta)")
        taps = check_taps(taps)
        weight, vertex, code, box = ops.build(feature, batch, tap_variance(taps))
        graphs = None if batch is None else (batch, boxes.graph(code, box))
        incidence = Incidence(vertex, weight, code.shape[0], True, graphs)
        return cls(feature, batch, incidence, code, box, taps)

    @classmethod
    def build_bipartite(
        cls,
        feature_src: Tensor,
        feature_dst: Tensor,
        batch_src: Tensor | None = None,
        batch_dst: Tensor | None = None,
        taps: Sequence[float] = GAUSSIAN_TAPS,
    ) -> tuple[Lattice, Incidence]:
        """Lay one lattice over input and output points, so that every corner that an output point
        reads exists.

        Returns:
            The lattice, whose points are the input points, and where the output points lie on it,
            for ``lattice.slice(values, at=...)``.

        Shapes:
            - feature_src: :math:`(N, d)`, feature_dst: :math:`(N', d)`
            - batch_src: :math:`(N)`, batch_dst: :math:`(N')` int64, both or neither
        """
        feature_src = check_points("feature_src", feature_src, "batch_src", batch_src)
        feature_dst = check_points("feature_dst", feature_dst, "batch_dst", batch_dst)
        check_alike("feature_dst", feature_dst, feature_src)
        feature = torch.cat([feature_src, feature_dst.to(feature_src.dtype)])
        batch = join_batches(batch_src, batch_dst)
        try:
            both = cls.build(feature, batch, taps)
        except ValueError:
            variance = tap_variance(check_taps(taps))
            check_values(feature_src, batch_src, variance, "feature_src", "batch_src")
            check_values(feature_dst, batch_dst, variance, "feature_dst", "batch_dst")
            raise
        src, dst = both.incidence.split([len(feature_src), len(feature_dst)])
        others = (feature_dst, batch_dst)
        lattice = cls(feature_src, batch_src, src, both.code, both.box, both.taps, others)
        return lattice, lattice._once("others", lambda: dst)

    @property
    def dim(self) -> int:
        """Feature dimension ``d``; a simplex has ``d + 1`` corners."""
        return int(self.feature.shape[1])

    @property
    def num_points(self) -> int:
        return self.incidence.num_points

    @property
    def num_vertices(self) -> int:
        return self.incidence.num_vertices

    @property
    def device(self) -> torch.device:
        return self.code.device

    @property
    def vertex(self) -> Tensor:
        """Vertex of each corner of each point, ``[N, d + 1]`` int32."""
        return self.incidence.vertex

    @property
    def weight(self) -> Tensor:
        """Barycentric weight of each corner, ``[N, d + 1]``, differentiable in the features."""
        return self.incidence.weight

    @property
    def key(self) -> Tensor:
        """Lattice coordinates of the vertices, the first ``d`` of ``d + 1``, ``[M, d]`` int32."""
        grid = self._coordinate()[:, :-1]
        return ((self.dim + 1) * grid - grid.sum(1, keepdim=True)).to(torch.int32)

    @property
    def vertex_batch(self) -> Tensor:
        """Graph of each vertex, ascending, ``[M]`` int64."""
        return self._once("graph", lambda: boxes.graph(self.code, self.box))

    def splat(self, x: Tensor, at: Incidence | None = None) -> Tensor:
        """Values at points ``[N, C]`` to values at vertices ``[M, C]``.

        Args:
            at: Other points than the lattice's own, from :meth:`locate`.
        """
        return self._incidence(at).splat(x)

    def slice(self, values: Tensor, at: Incidence | None = None) -> Tensor:
        """Values at vertices ``[M, C]`` to values at points ``[N, C]``, the transpose of splat.

        Args:
            at: Other points than the lattice's own, from :meth:`locate`, :meth:`build_bipartite` or
                :meth:`coarsen`. Corners that are not on the lattice read 0.
        """
        return self._incidence(at).slice(values)

    def locate(self, feature: Tensor, batch: Tensor | None = None) -> Incidence:
        """Where other points lie on this lattice; differentiable in ``feature``."""
        feature = check_points("feature", feature, "batch", batch)
        check_alike("feature", feature, self.feature)
        variance = tap_variance(self.taps)
        weight, vertex = ops.locate(feature, batch, self.code, self.box, self._slots(), variance)
        return Incidence(vertex, weight, self.num_vertices)

    def neighbors(self, radius: int = 1, dilation: int = 1, stencil: str = "full") -> Tensor:
        """The vertex at each offset of a stencil from each vertex, ``-1`` where there is none.

        Args:
            radius: Size of the neighborhood.
            dilation: Factor on the offsets.
            stencil: ``"full"``, or ``"axis"`` for the points on the axes alone.

        Shapes:
            - output: :math:`(M, K)` int32, in the order of :func:`permutogeo.stencil`
        """
        stencils.check_integer("dilation", dilation, 1)
        taps = stencils.num_taps(self.dim, radius, stencil)
        self._check_memory(taps, radius)
        return self._once(
            ("neighbors", radius, dilation, stencil),
            lambda: ops.neighbors(self.code, self.box, radius, dilation, stencil),
        )

    def blur(self, values: Tensor, transpose: bool = False) -> Tensor:
        """The separable Gaussian on vertices ``[M, C]``, axis after axis.

        Args:
            transpose: Run the axes in reverse, which is the transpose.
        """
        check_rows("values", values, self.num_vertices, "vertices", self.code)
        neighbors = self.neighbors(len(self.taps) // 2, stencil="axis")
        working = values.to(working_dtype(values))
        return ops.blur(working, neighbors, self.dim, self.taps, transpose).to(values.dtype)

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
        r"""Convolve values at vertices with a learned filter.

        .. math::
            \text{out}_v = \sum_k \text{values}_{v + \text{offset}_k} \, \text{filter}_k

        where vertices that do not exist count as zero.

        Args:
            values: Values at vertices.
            filter_weight: Filter bank, or one scalar filter if ``shared``.
            radius: Size of the neighborhood.
            groups: Blocked connections from input to output channels.
            dilation: Factor on the offsets.
            stencil: ``"full"`` or ``"axis"``.
            shared: Apply one scalar filter to all channels.

        Shapes:
            - values: :math:`(M, C_{in})`
            - filter_weight: :math:`(K, C_{in} / groups, C_{out})`, or :math:`(K)`
            - output: :math:`(M, C_{out})`
        """
        check_rows("values", values, self.num_vertices, "vertices", self.code)
        taps = stencils.num_taps(self.dim, radius, stencil)
        check_filter(filter_weight, taps, values, groups, shared)
        neighbors = self.neighbors(radius, dilation, stencil)
        opposite = self._opposite(radius, stencil)
        dtype = torch.promote_types(values.dtype, filter_weight.dtype)
        working = torch.float64 if dtype == torch.float64 else torch.float32
        values, filter_weight = values.to(working), filter_weight.to(working)
        if shared or (groups == values.shape[1] == filter_weight.shape[2]):
            channelwise = filter_weight.reshape(taps, -1)
            out = ops.convolve_channelwise(values, channelwise, neighbors, opposite)
        else:
            out = ops.convolve(values, filter_weight, neighbors, opposite, groups)
        return out.to(dtype)

    def coarsen(self) -> tuple[Lattice, Incidence]:
        """The lattice of half the resolution, that of ``feature / 2``, and the map between the two.

        Each vertex of this lattice lies on the coarse one half way between two vertices, or on one.

        Returns:
            The coarse lattice, and where this lattice's vertices lie on it:
            ``coarse.splat(values, at=at)`` takes values to the coarse lattice, and
            ``coarse.slice(values, at=at)`` takes them back. They are made once, unless gradients
            in the features have to reach them.
        """
        self._check_unchanged("feature")
        return self._constant("coarse", self._coarsened)

    def incidence_graph(self) -> tuple[Tensor, Tensor]:
        """The edges from points to vertices, for any PyG layer on a bipartite graph.

        Shapes:
            - edge_index: :math:`(2, N (d + 1))` int64, points above, vertices below
            - edge_weight: :math:`(N (d + 1))`, differentiable in the features
        """
        return self.incidence.edges()

    def neighbor_graph(
        self, radius: int = 1, dilation: int = 1, stencil: str = "full"
    ) -> tuple[Tensor, Tensor]:
        """The edges between vertices, for any PyG layer with edge types.

        Shapes:
            - edge_index: :math:`(2, E)` int64; the source is the vertex at offset ``edge_type`` of
              the target
            - edge_type: :math:`(E)` int64
        """
        neighbors = self.neighbors(radius, dilation, stencil)
        target, edge_type = (neighbors >= 0).nonzero(as_tuple=True)
        return torch.stack([neighbors[target, edge_type].long(), target]), edge_type

    def to(self, device: torch.device | str) -> Lattice:
        """The same lattice on another device."""

        def move(batch: Tensor | None) -> Tensor | None:
            return None if batch is None else batch.to(device)

        others = self.others and (self.others[0].to(device), move(self.others[1]))
        return Lattice(
            self.feature.to(device),
            move(self.batch),
            self.incidence.to(device),
            self.code.to(device),
            self.box.to(device),
            self.taps,
            others,
        )

    def __repr__(self) -> str:
        parts = [f"dim={self.dim}", f"num_points={self.num_points}"]
        parts.append(f"num_vertices={self.num_vertices}")
        if self.batch is not None and self.device.type != "meta":
            parts.append(f"num_graphs={int(self.box[-1, 1])}")
        if self.taps != GAUSSIAN_TAPS:
            parts.append(f"taps={self.taps}")
        if self.device.type != "cpu":
            parts.append(f"device={self.device}")
        return f"{type(self).__name__}({', '.join(parts)})"

    def _incidence(self, at: Incidence | None) -> Incidence:
        return self.incidence if at is None else check_incidence(at, self.incidence)

    def _coordinate(self) -> Tensor:
        """Grid coordinates of the vertices and their graph, ``[M, d + 1]``."""
        return self._once("coordinate", lambda: boxes.decode(self.code, self.box))

    def _opposite(self, radius: int, stencil: str) -> Tensor:
        """For each offset of a stencil the index of its negative."""
        return self._once(
            ("opposite", radius, stencil),
            lambda: ops.opposite(self.code, self.dim, radius, stencil),
        )

    def _slots(self) -> Tensor:
        """The hash table of the vertices."""
        return self._once("slots", lambda: ops.hash_codes(self.code))

    def _coarsened(self) -> tuple[Lattice, Incidence]:
        if self.others is None:
            coarse = Lattice.build(self.feature / 2, self.batch, self.taps)
        else:
            feature, batch = self.others
            coarse, _ = Lattice.build_bipartite(
                self.feature / 2, feature / 2, self.batch, batch, self.taps
            )
        vertex = midpoints(self._coordinate(), coarse.code, coarse.box, coarse._slots())
        weight = self.weight.new_full(vertex.shape, 0.5)
        return coarse, Incidence(vertex, weight, coarse.num_vertices)

    def _sources(self) -> list[Tensor]:
        return [self.feature, *(self.others or ())[:1]]

    def _check_memory(self, taps: int, radius: int) -> None:
        if torch.compiler.is_compiling():
            return
        needed, available = 4 * taps * self.num_vertices, total_memory(self.device)
        if needed > available:
            raise ValueError(
                f"A stencil of radius {radius} has {taps} taps in {self.dim} dimensions: the "
                f"neighbors of {self.num_vertices} vertices would take {needed / 2**30:.0f} GiB of "
                f"{available / 2**30:.0f}; use stencil='axis' or a smaller radius"
            )
