"""Sparse permutohedral lattice over points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from permutogeo import ops
from permutogeo.checks import (
    check_filter,
    check_has_data,
    check_integer,
    check_matrix,
    check_points,
    check_same_space,
    check_taps,
    join_batches,
)
from permutogeo.lattice.caching import TensorCacheMixin
from permutogeo.lattice.coarsening import coarsened, locate_own
from permutogeo.lattice.convolution import check_memory, convolve
from permutogeo.lattice.incidence import Incidence, check_incidence
from permutogeo.lattice.occupancy import occupancy_parts
from permutogeo.lattice.precision import working_dtype
from permutogeo.ops import boxes, stencils
from permutogeo.ops.build import grid_extent
from permutogeo.ops.stencils import tap_variance

GAUSSIAN_TAPS = (0.5, 1.0, 0.5)


@dataclass(frozen=True, eq=False, repr=False)
class Lattice(TensorCacheMixin):
    r"""A sparse permutohedral lattice over points, from `"Learning Sparse High Dimensional
    Filters: Image Filtering, Dense CRFs and Bilateral Neural Networks"
    <https://arxiv.org/abs/1503.04949>`_.

    Each point lies in one simplex of the lattice. Only the corners of these simplices are stored as
    vertices. Values are moved from points to vertices (:meth:`splat`), filtered there
    (:meth:`blur`, :meth:`convolve`) and moved back (:meth:`slice`). Vertices are sorted by graph
    and then by position, independent of the order of the points.

    Create one with :meth:`build` or :meth:`build_bipartite`, and use it in several layers.

    Example:

        >>> feature = torch.tensor([[0.0, 0.0], [0.3, 0.1], [5.0, 5.0]])
        >>> lattice = Lattice.build(feature)
        >>> lattice
        Lattice(dim=2, num_points=3, num_vertices=7, points_per_vertex=0.43, occupied_neighbors=38%)
        >>> lattice.slice(lattice.blur(lattice.splat(torch.ones(3, 1)))).shape
        torch.Size([3, 1])
    """

    feature: Tensor
    batch: Tensor | None
    # Incidence of the points; located on first use if it is not given.
    located: Incidence | None
    code: Tensor
    box: Tensor
    taps: tuple[float, ...] = GAUSSIAN_TAPS
    # Feature and batch of the output points of a bipartite lattice.
    others: tuple[Tensor, Tensor | None] | None = None
    _cache: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def build(
        cls, feature: Tensor, batch: Tensor | None = None, taps: Sequence[float] = GAUSSIAN_TAPS
    ) -> Lattice:
        """Build the lattice of points.

        Args:
            feature: Coordinates of the points, divided by their bandwidths.
            batch: Graph of each point, in any order; graphs never share a vertex.
            taps: Taps of the blur along each axis: symmetric, of odd length. The lattice is scaled
                so that its Gaussian has standard deviation 1 in feature units.

        Shapes:
            - feature: :math:`(N, d)`
            - batch: :math:`(N)` int64
        """
        feature = check_points("feature", feature, "batch", batch)
        check_has_data(feature)
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
        """Build one lattice over input and output points, so that all corners of the output points
        exist.

        Returns:
            The lattice, whose points are the input points, and the incidence of the output points,
            for ``lattice.slice(values, at=...)``.

        Shapes:
            - feature_src: :math:`(N, d)`, feature_dst: :math:`(N', d)`
            - batch_src: :math:`(N)`, batch_dst: :math:`(N')` int64, both or neither
        """
        feature_src = check_points("feature_src", feature_src, "batch_src", batch_src)
        feature_dst = check_points("feature_dst", feature_dst, "batch_dst", batch_dst)
        check_same_space("feature_dst", feature_dst, feature_src)
        feature = torch.cat([feature_src, feature_dst.to(feature_src.dtype)])
        batch = join_batches(batch_src, batch_dst)
        try:
            both = cls.build(feature, batch, taps)
        except ValueError:
            variance = tap_variance(check_taps(taps))
            grid_extent(feature_src, batch_src, variance, "feature_src", "batch_src")
            grid_extent(feature_dst, batch_dst, variance, "feature_dst", "batch_dst")
            raise
        src, dst = both.incidence.split([feature_src.shape[0], feature_dst.shape[0]])
        others = (feature_dst, batch_dst)
        lattice = cls(feature_src, batch_src, src, both.code, both.box, both.taps, others)
        return lattice, lattice.cached("others", lambda: dst)

    @property
    def dim(self) -> int:
        """Feature dimension ``d``; a simplex has ``d + 1`` corners."""
        return int(self.feature.shape[1])

    @property
    def num_points(self) -> int:
        return self.feature.shape[0]

    @property
    def num_vertices(self) -> int:
        return self.code.shape[0]

    @property
    def incidence(self) -> Incidence:
        """Incidence of the lattice's own points."""
        if self.located is not None:
            return self.located
        return self.cached("points", lambda: locate_own(self))

    @property
    def sharded(self) -> bool:
        """Whether the vertices are distributed over the ranks of a process group."""
        return self.located is not None and self.located.sharded

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
        grid = self.coordinate[:, :-1]
        return ((self.dim + 1) * grid - grid.sum(1, keepdim=True)).to(torch.int32)

    @property
    def vertex_batch(self) -> Tensor:
        """Graph of each vertex, ascending, ``[M]`` int64."""
        return self.cached("graph", lambda: boxes.graph(self.code, self.box))

    def splat(self, x: Tensor, at: Incidence | None = None) -> Tensor:
        """Splat values at points ``[N, C]`` to values at vertices ``[M, C]``.

        Args:
            at: Points other than the lattice's own, from :meth:`locate`.
        """
        return self.incidence_at(at).splat(x)

    def slice(self, values: Tensor, at: Incidence | None = None) -> Tensor:
        """Slice values at vertices ``[M, C]`` to points ``[N, C]``: the transpose of splat.

        Args:
            at: Points other than the lattice's own, from :meth:`locate`, :meth:`build_bipartite` or
                :meth:`coarsen`. Corners that are not on the lattice read 0.
        """
        return self.incidence_at(at).slice(values)

    def locate(self, feature: Tensor, batch: Tensor | None = None) -> Incidence:
        """Return the incidence of other points on this lattice, differentiable in ``feature``."""
        feature = check_points("feature", feature, "batch", batch)
        check_same_space("feature", feature, self.feature)
        self._check_graphs(batch)
        variance = tap_variance(self.taps)
        weight, vertex = ops.locate(
            feature, batch, self.code, self.box, self.hash_table(), variance
        )
        return Incidence(vertex, weight, self.num_vertices)

    def neighbors(self, radius: int = 1, dilation: int = 1, stencil: str = "full") -> Tensor:
        """Return the vertex at each stencil offset of each vertex, ``-1`` where absent.

        Args:
            radius: Size of the neighborhood.
            dilation: Factor on the offsets.
            stencil: ``"full"``, or ``"axis"`` for offsets along single axes.

        Shapes:
            - output: :math:`(M, K)` int32, in the order of :func:`permutogeo.stencil`
        """

        def find() -> Tensor:
            check_integer(None, "dilation", dilation)
            self._check_memory(stencils.num_taps(self.dim, radius, stencil), radius)
            return ops.neighbors(self.code, self.box, radius, dilation, stencil)

        return self.cached(("neighbors", radius, dilation, stencil), find)

    def blur(self, values: Tensor, transpose: bool = False) -> Tensor:
        """Apply the separable Gaussian blur to values at vertices ``[M, C]``, axis by axis.

        Args:
            transpose: Apply the transpose, which visits the axes in reverse.
        """
        check_matrix(
            None, "values", values, device=self.device, rows=self.num_vertices, of="vertices"
        )
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

        where absent vertices count as zero.

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
        check_matrix(
            None, "values", values, device=self.device, rows=self.num_vertices, of="vertices"
        )
        taps = self.neighbors(radius, dilation, stencil).shape[1]
        check_filter(filter_weight, taps, values, groups, shared)
        return self.apply_filter(values, filter_weight, radius, groups, dilation, stencil, shared)

    def apply_filter(self, values: Tensor, filter_weight: Tensor, *options: Any) -> Tensor:
        """:meth:`convolve` for layers, which have checked their arguments and give all of them."""
        radius, groups, dilation, stencil, shared = options
        neighbors = self.neighbors(radius, dilation, stencil)
        key = (self.feature.shape[1], radius, stencil)
        opposite = self.cached(("opposite", *key), lambda: ops.opposite(self.code, *key))
        edges = partial(self.cached, ("edges", radius, dilation, stencil))
        return convolve(values, filter_weight, neighbors, opposite, groups, shared, edges)

    def coarsen(self) -> tuple[Lattice, Incidence]:
        """Return the lattice of half the resolution, that of ``feature / 2``.

        Each vertex of this lattice is a vertex of the coarse one or the midpoint of two.

        Returns:
            The coarse lattice, and the incidence of this lattice's vertices on it:
            ``coarse.splat(values, at=at)`` restricts values to the coarse lattice, and
            ``coarse.slice(values, at=at)`` interpolates them back. The result is cached unless the
            features require a gradient.
        """
        self.check_unchanged()
        return self.cached_constant("coarse", self._coarsened)

    def is_output(self, at: Incidence) -> bool:
        """Return whether ``at`` is the incidence that :meth:`build_bipartite` returned."""
        return self._cache.get("others") is at

    def has_coarsened(self, coarse: Lattice, at: Incidence) -> bool:
        """Return whether ``coarse`` and ``at`` are the cached result of :meth:`coarsen`."""
        return self._cache.get("coarse") == (coarse, at)

    def incidence_graph(self) -> tuple[Tensor, Tensor]:
        """Return the edges from points to vertices, for any PyG layer on a bipartite graph.

        Shapes:
            - edge_index: :math:`(2, N (d + 1))` int64, points above, vertices below
            - edge_weight: :math:`(N (d + 1))`, differentiable in the features
        """
        return self.incidence.edges()

    def neighbor_graph(
        self, radius: int = 1, dilation: int = 1, stencil: str = "full"
    ) -> tuple[Tensor, Tensor]:
        """Return the edges between vertices, for any PyG layer with edge types.

        Shapes:
            - edge_index: :math:`(2, E)` int64; the source is the vertex at offset ``edge_type`` of
              the target
            - edge_type: :math:`(E)` int64
        """
        neighbors = self.neighbors(radius, dilation, stencil)
        target, edge_type = (neighbors >= 0).nonzero(as_tuple=True)
        return torch.stack([neighbors[target, edge_type].long(), target]), edge_type

    def to(self, device: torch.device | str) -> Lattice:
        """Return a copy on another device."""

        def move(tensor: Any) -> Any:
            return None if tensor is None else tensor.to(device)

        others = self.others and (move(self.others[0]), move(self.others[1]))
        points = move(self.feature), move(self.batch), move(self.located)
        return Lattice(*points, move(self.code), move(self.box), self.taps, others)

    def __repr__(self) -> str:
        parts = [f"{name}={getattr(self, name)}" for name in ("dim", "num_points", "num_vertices")]
        parts += occupancy_parts(self)
        if self.batch is not None and self.device.type != "meta":
            parts.append(f"num_graphs={int(self.box[-1, 1])}")
        if self.taps != GAUSSIAN_TAPS:
            parts.append(f"taps={self.taps}")
        if self.device.type != "cpu":
            parts.append(f"device={self.device}")
        return f"{type(self).__name__}({', '.join(parts)})"

    def incidence_at(self, at: Incidence | None) -> Incidence:
        """Return ``at`` after checking it, or the incidence of the lattice's own points."""
        return self.incidence if at is None else check_incidence(None, at, self)

    def around_points(self) -> Lattice:
        """Return the lattice of the vertices around the points of this process, all of them."""
        return self

    def mass(self, dtype: torch.dtype) -> Tensor:
        """Return the splat of ones at the points, ``[M, 1]``; cached as :meth:`coarsen` is."""
        make = lambda: self.splat(self.feature.new_ones(self.num_points, 1, dtype=dtype))  # noqa: E731
        return self.cached_constant(("mass", dtype), make)

    @property
    def coordinate(self) -> Tensor:
        """Grid coordinates of the vertices and their graph, ``[M, d + 1]``."""
        return self.cached("coordinate", lambda: boxes.decode(self.code, self.box))

    def hash_table(self) -> Tensor:
        """Hash table of the vertices, for ``ops.locate``."""
        return self.cached("slots", lambda: ops.hash_codes(self.code))

    def _coarsened(self) -> tuple[Lattice, Incidence]:
        return coarsened(self)

    def _differentiable(self) -> bool:
        # Weights keep their graph when the features stop to require a gradient.
        points = self._cache.get("points", self.located)
        weighted = points is not None and points.weight.requires_grad
        return weighted or super()._differentiable()

    def _sources(self) -> list[Tensor]:
        return [x for x in (self.feature, self.batch, *(self.others or ())) if x is not None]

    def _check_graphs(self, batch: Tensor | None) -> None:
        """Raise unless other points have a batch vector like the lattice's own points."""
        if batch is not None and self.batch is None:
            raise ValueError("Expected no 'batch' on a lattice that was built without (got one)")
        if batch is None and self.batch is not None and not torch.compiler.is_compiling():
            graphs = self.cached("num_graphs", lambda: int(self.box[-1, 1]))
            if graphs > 1:
                raise ValueError(f"Expected 'batch' on a lattice of {graphs} graphs (got None)")

    def _check_memory(self, taps: int, radius: int) -> None:
        check_memory(self, taps, radius)
