"""Where points touch a lattice."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from permutogeo import ops
from permutogeo.caching import once
from permutogeo.checks import check_rows, working_dtype


@dataclass(frozen=True, eq=False, repr=False)
class Incidence:
    """Points on a lattice: the vertices at the corners of each, and their weights.

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

    def splat(self, x: Tensor) -> Tensor:
        """Values at points ``[N, C]`` to values at vertices ``[M, C]``."""
        check_rows("x", x, self.num_points, "points", self.weight)
        dtype = working_dtype(x)
        weight = self.weight.to(dtype)
        values = ops.splat(x.to(dtype), weight, self._index(), self._rows(), *self._plan())
        return values[: self.num_vertices].to(x.dtype)

    def slice(self, values: Tensor) -> Tensor:
        """Values at vertices ``[M, C]`` to values at points ``[N, C]``."""
        check_rows("values", values, self.num_vertices, "vertices", self.weight)
        dtype = working_dtype(values)
        weight, rows = self.weight.to(dtype), values.to(dtype)
        if not self.complete:
            rows = torch.cat([rows, rows.new_zeros(1, rows.shape[1])])
        differentiable = values.requires_grad or weight.requires_grad
        plan = self._plan() if differentiable and torch.is_grad_enabled() else (None,) * 3
        return ops.slice(rows, weight, self._index(), *plan).to(values.dtype)

    def with_weight(self, weight: Tensor) -> Incidence:
        """The same corners with other weights ``[N, k]``; how to add up at vertices is kept."""
        if weight.shape != self.weight.shape:
            raise ValueError(
                f"Expected 'weight' of shape {list(self.weight.shape)} (got {list(weight.shape)})"
            )
        return replace(self, weight=weight)

    def split(self, sizes: list[int]) -> list[Incidence]:
        """The points in runs of these sizes."""
        vertices, weights = self.vertex.split(sizes), self.weight.split(sizes)
        graphs: list[tuple[Tensor, Tensor] | None] = [None] * len(sizes)
        if self.graphs is not None:
            batch, vertex_batch = self.graphs
            graphs = [(part, vertex_batch) for part in batch.split(sizes)]
        return [
            Incidence(*parts[:2], self.num_vertices, self.complete, parts[2])
            for parts in zip(vertices, weights, graphs, strict=True)
        ]

    def edges(self) -> tuple[Tensor, Tensor]:
        """The edges from points to the vertices that exist.

        Shapes:
            - edge_index: :math:`(2, E)` int64, points above, vertices below
            - edge_weight: :math:`(E)`
        """
        if self.complete:  # of sizes known before the call, for compilers
            point = torch.arange(self.num_points, device=self.vertex.device)
            point = point.repeat_interleave(self.vertex.shape[1])
            return torch.stack([point, self.vertex.reshape(-1).long()]), self.weight.reshape(-1)
        point, corner = (self.vertex >= 0).nonzero(as_tuple=True)
        edge_index = torch.stack([point, self.vertex[point, corner].long()])
        return edge_index, self.weight[point, corner]

    def to(self, device: torch.device | str) -> Incidence:
        """The same on another device."""
        graphs = self.graphs and (self.graphs[0].to(device), self.graphs[1].to(device))
        vertex, weight = self.vertex.to(device), self.weight.to(device)
        return Incidence(vertex, weight, self.num_vertices, self.complete, graphs)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_points={self.num_points}, "
            f"corners={self.vertex.shape[1]}, num_vertices={self.num_vertices})"
        )

    def _rows(self) -> int:
        """Rows of values that kernels see: one more where absent corners need a row of zeros."""
        return self.num_vertices if self.complete else self.num_vertices + 1

    def _index(self) -> Tensor:
        """The row of each corner."""
        if self.complete:
            return self.vertex
        absent = self.num_vertices
        return once(self._cache, "index", lambda: torch.where(self.vertex < 0, absent, self.vertex))

    def _plan(self) -> tuple[Tensor, Tensor, Tensor]:
        """How to add up points at vertices. What is used once is not worth sorting."""
        batch, vertex_batch = self.graphs if self.graphs and self.complete else (None, None)

        def make(sort: bool) -> tuple[Tensor, Tensor, Tensor]:
            return ops.plan(self._index(), self._rows(), batch, vertex_batch, sort)

        if "first plan" not in self._cache:
            return once(self._cache, "first plan", lambda: make(False))
        return once(self._cache, "plan", lambda: make(True))


def check_incidence(at: Any, like: Incidence) -> Incidence:
    """Raise unless ``at`` says where points lie on the lattice of ``like``."""
    if not isinstance(at, Incidence):
        raise TypeError(f"Expected 'at' to be an Incidence (got {type(at).__name__})")
    if torch.compiler.is_compiling():
        return at
    if at.num_vertices != like.num_vertices:
        raise ValueError(
            f"Expected 'at' on the lattice of {like.num_vertices} vertices "
            f"(got one on a lattice of {at.num_vertices})"
        )
    if at.vertex.device != like.vertex.device:
        raise ValueError(
            f"Expected 'at' on {like.vertex.device} like the lattice (got {at.vertex.device})"
        )
    return at
