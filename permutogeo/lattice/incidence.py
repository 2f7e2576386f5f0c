"""Incidence of points and vertices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from permutogeo import ops
from permutogeo.checks import check_matrix, fail
from permutogeo.lattice.caching import cached
from permutogeo.lattice.precision import widened, working_dtype

if TYPE_CHECKING:
    from permutogeo.lattice.lattice import Lattice


@dataclass(frozen=True, eq=False, repr=False)
class Incidence:
    """Points on a lattice: the vertices of each point's simplex, and their weights.

    Args:
        vertex: Vertex of each corner, ``-1`` where the lattice has none, ``[N, k]`` int32.
        weight: Weight of each corner, ``[N, k]``.
        num_vertices: Vertices of the lattice, ``M``.
        complete: Whether no corner is absent.
        graphs: Graph of each point and of each vertex, if the lattice has several.
    """

    vertex: Tensor
    weight: Tensor
    num_vertices: int
    complete: bool = False
    graphs: tuple[Tensor, Tensor] | None = None
    _cache: dict[str, Any] = field(default_factory=dict)

    @property
    def num_points(self) -> int:
        return self.vertex.shape[0]

    # A lattice that is sharded over ranks overrides the following; here a vertex is a row, and
    # nothing is exchanged.

    @property
    def sharded(self) -> bool:
        """Whether the vertices are distributed over the ranks of a process group."""
        return False

    @property
    def num_rows(self) -> int:
        """Number of rows that ``vertex`` refers to."""
        return self.num_vertices

    def spread(self, values: Tensor) -> Tensor:
        """Return the rows that ``vertex`` refers to, given values at vertices."""
        return values

    def collect(self, rows: Tensor) -> Tensor:
        """Return values at vertices, the sums of rows: the transpose of :meth:`spread`."""
        return rows

    def pull(self, x: Tensor) -> Tensor:
        """Return the values of all points that have a corner among the vertices of this rank."""
        return x

    def pulled_vertex(self) -> Tensor:
        """Return the vertices of the points of :meth:`pull`, ``-1`` where not of this rank."""
        return self.vertex

    def total(self, x: Tensor) -> Tensor:
        """Return the sum over the ranks of the lattice, differentiable."""
        return x

    def largest(self, x: Tensor) -> Tensor:
        """Return the maximum over the ranks of the lattice."""
        return x

    def splat(self, x: Tensor) -> Tensor:
        """Splat values at points ``[N, C]`` to values at vertices ``[M, C]``."""
        check_matrix(None, "x", x, device=self.weight.device, rows=self.num_points)
        wide = widened(x)
        plan = self.splat_plan(sort=self._record_use())
        values = ops.splat(wide, self._weight(wide.dtype), self._index(), self._rows(), *plan)
        out = self.collect(values[: self.num_rows])
        return out if out.dtype == x.dtype else out.to(x.dtype)

    def slice(self, values: Tensor) -> Tensor:
        """Slice values at vertices ``[M, C]`` to values at points ``[N, C]``."""
        check_matrix(
            None, "values", values, device=self.weight.device, rows=self.num_vertices, of="vertices"
        )
        wide = widened(values)
        weight, rows = self._weight(wide.dtype), self._padded(self.spread(wide))
        out = ops.slice(rows, weight, self._index(), *self._plan_of_backward(values, weight))
        return out if out.dtype == values.dtype else out.to(values.dtype)

    def dot(self, x: Tensor, values: Tensor) -> Tensor:
        """Return the inner products of values at points ``[N, C]`` with the values at each of their
        vertices ``[M, C]``, ``[N, k]``; 0 where a vertex is absent. The weights play no part."""
        device, channels = self.weight.device, x.shape[1]
        check_matrix(None, "x", x, device=device, rows=self.num_points)
        check_matrix(
            *(None, "values", values),
            device=device,
            rows=self.num_vertices,
            channels=channels,
            of="vertices",
        )
        dtype = torch.promote_types(working_dtype(x), working_dtype(values))
        plan = self._plan_of_backward(x, values)
        rows = self._padded(self.spread(values.to(dtype)))
        return ops.dot(x.to(dtype), rows, self._index(), *plan)

    def with_weight(self, weight: Tensor) -> Incidence:
        """Return the same corners with other weights ``[N, k]``; caches are shared."""
        if weight.shape != self.weight.shape:
            raise ValueError(
                f"Expected 'weight' of shape {list(self.weight.shape)} (got {list(weight.shape)})"
            )
        return replace(self, weight=weight)

    def split(self, sizes: list[int]) -> list[Incidence]:
        """Split the points into runs of these sizes."""
        vertices, weights = self.vertex.split(sizes), self.weight.split(sizes)
        graphs: list[tuple[Tensor, Tensor] | None] = [None] * len(sizes)
        if self.graphs is not None:
            batch, vertex_batch = self.graphs
            graphs = [(part, vertex_batch) for part in batch.split(sizes)]
        return [
            replace(self, vertex=vertex, weight=weight, graphs=part, _cache={})
            for vertex, weight, part in zip(vertices, weights, graphs, strict=True)
        ]

    def edges(self) -> tuple[Tensor, Tensor]:
        """Return the edges from points to the vertices that exist.

        Shapes:
            - edge_index: :math:`(2, E)` int64, points above, vertices below
            - edge_weight: :math:`(E)`
        """
        if self.complete:  # static sizes, for torch.compile
            point = torch.arange(self.num_points, device=self.vertex.device)
            point = point.repeat_interleave(self.vertex.shape[1])
            return torch.stack([point, self.vertex.reshape(-1).long()]), self.weight.reshape(-1)
        point, corner = (self.vertex >= 0).nonzero(as_tuple=True)
        edge_index = torch.stack([point, self.vertex[point, corner].long()])
        return edge_index, self.weight[point, corner]

    def to(self, device: torch.device | str) -> Incidence:
        """Return a copy on another device."""
        graphs = self.graphs and (self.graphs[0].to(device), self.graphs[1].to(device))
        vertex, weight = self.vertex.to(device), self.weight.to(device)
        return Incidence(vertex, weight, self.num_vertices, self.complete, graphs)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_points={self.num_points}, "
            f"corners={self.vertex.shape[1]}, num_vertices={self.num_vertices})"
        )

    def cached(self, name: str, make: Callable[[], Any]) -> Any:
        """Return the entry ``name`` of the cache, computed on first use."""
        return cached(self._cache, name, make)

    def _weight(self, dtype: torch.dtype) -> Tensor:
        """Return the weights in the type of sums."""
        return self.weight if self.weight.dtype == dtype else self.weight.to(dtype)

    def _padded(self, values: Tensor) -> Tensor:
        """Append the row of zeros that absent corners read."""
        if self.complete:
            return values
        return torch.cat([values, values.new_zeros(1, values.shape[1])])

    def _plan_of_backward(self, *tensors: Tensor) -> tuple:
        """Return the plan of the splat in a backward pass, if there will be one."""
        if torch.is_grad_enabled():
            for tensor in tensors:
                if tensor.requires_grad:
                    return self.splat_plan(sort=self._record_use())
        return None, None, None

    def _rows(self) -> int:
        """Rows of values in kernels: one more, of zeros, where corners are absent."""
        return self.num_rows if self.complete else self.num_rows + 1

    def _index(self) -> Tensor:
        """Row of each corner in the values of a kernel."""
        if self.complete:
            return self.vertex
        absent = self.num_rows
        return self.cached("index", lambda: torch.where(self.vertex < 0, absent, self.vertex))

    def splat_plan(self, sort: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Return the plan of a splat, for ``ops.splat``; computed once.

        Both plans sum in the same order.

        Args:
            sort: Sort the corners by vertex where that is faster from the second splat on.
        """
        batch, vertex_batch = self.graphs if self.graphs and self.complete else (None, None)
        return self.cached(
            f"plan, sort={sort}",
            lambda: ops.splat_plan(self._index(), self._rows(), batch, vertex_batch, sort),
        )

    def _record_use(self) -> bool:
        """Record a splat to come, and return whether to sort the corners for it: if there was one
        before, and where that pays."""
        if torch.compiler.is_compiling():
            return True  # Dynamo compiles again where a dictionary that it wrote has changed
        used = "used" in self._cache
        self._cache["used"] = True
        return used and ops.sorting_pays(self.vertex)


def check_incidence(owner: Any, at: Any, lattice: Lattice) -> Incidence:
    """Raise unless ``at`` locates points on ``lattice``."""
    if not isinstance(at, Incidence):
        fail(owner, f"Expected 'at' to be an Incidence (got {type(at).__name__})", TypeError)
    if torch.compiler.is_compiling():
        return at
    if at.sharded != lattice.sharded:
        kinds = [type(each).__name__ for each in (lattice.incidence, at)]
        fail(owner, f"Expected 'at' to be a {kinds[0]} of the lattice (got {kinds[1]})")
    if at.num_vertices != lattice.num_vertices:
        fail(
            owner,
            f"Expected 'at' on the lattice of {lattice.num_vertices} vertices "
            f"(got one on a lattice of {at.num_vertices})",
        )
    if at.vertex.device != lattice.device:
        fail(
            owner,
            f"Expected 'at' on {lattice.device} like the lattice (got {at.vertex.device})",
        )
    return at
