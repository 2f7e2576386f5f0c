"""Where points touch a lattice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from permutogeo import ops


@dataclass(frozen=True, eq=False, repr=False)
class Incidence:
    """Points on a lattice: the vertices at the corners of each, and their weights.

    Args:
        vertex: Vertex of each corner, ``-1`` where the lattice has none, ``[N, k]`` int32.
        weight: Weight of each corner, ``[N, k]``.
        num_vertices: Vertices of the lattice, ``M``.
        complete: Whether no corner is absent.
    """

    vertex: Tensor
    weight: Tensor
    num_vertices: int
    complete: bool = False
    _cache: dict[str, Any] = field(default_factory=dict)

    @property
    def num_points(self) -> int:
        return self.vertex.shape[0]

    def splat(self, x: Tensor) -> Tensor:
        """Values at points ``[N, C]`` to values at vertices ``[M, C]``."""
        check_rows("x", x, self.num_points, "points", self.weight)
        dtype = _working_dtype(x)
        vertex, weight = self._present()
        values = ops.splat(
            x.to(dtype), weight.to(dtype), vertex, self.num_vertices, *self.by_vertex()
        )
        return values.to(x.dtype)

    def slice(self, values: Tensor) -> Tensor:
        """Values at vertices ``[M, C]`` to values at points ``[N, C]``."""
        check_rows("values", values, self.num_vertices, "vertices", self.weight)
        dtype = _working_dtype(values)
        vertex, weight = self._present()
        differentiable = values.requires_grad or weight.requires_grad
        by_vertex = self.by_vertex() if differentiable and torch.is_grad_enabled() else (None, None)
        x = ops.slice(values.to(dtype), weight.to(dtype), vertex, *by_vertex)
        return x.to(values.dtype)

    def _present(self) -> tuple[Tensor, Tensor]:
        """Corners as kernels read them: an absent one is some vertex of weight 0."""
        if self.complete:
            return self.vertex, self.weight
        there = self.vertex >= 0
        if "vertex" not in self._cache:
            # Spread over the vertices, so that none collects all the zeros.
            anywhere = torch.arange(self.num_points, device=self.vertex.device)
            anywhere = (anywhere % max(1, self.num_vertices)).to(torch.int32).unsqueeze(1)
            self._cache["vertex"] = torch.where(there, self.vertex, anywhere)
        # Not kept: its gradient belongs to this call.
        weight = torch.where(there, self.weight, self.weight.new_zeros(()))
        return self._cache["vertex"], weight

    def by_vertex(self) -> tuple[Tensor, Tensor]:
        """The corners in order of their vertices, made once (empty where splatting needs none)."""
        if "by_vertex" not in self._cache:
            vertex, _ = self._present()
            self._cache["by_vertex"] = ops.transpose(vertex, self.num_vertices)
        return self._cache["by_vertex"]

    def to(self, device: torch.device | str) -> Incidence:
        """The same on another device."""
        return Incidence(
            self.vertex.to(device), self.weight.to(device), self.num_vertices, self.complete
        )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_points={self.num_points}, "
            f"corners={self.vertex.shape[1]}, num_vertices={self.num_vertices})"
        )


def check_rows(name: str, x: Tensor, count: int, things: str, like: Tensor) -> None:
    """Raise unless ``x`` is a float matrix with a row for each of ``count`` things."""
    if torch.compiler.is_compiling():
        return
    if not isinstance(x, Tensor):
        raise TypeError(f"Expected '{name}' to be a tensor (got {type(x).__name__})")
    if x.dim() != 2 or x.shape[0] != count:
        raise ValueError(
            f"Expected '{name}' of shape [{count}, C], one row for each of the {count} {things} "
            f"(got {list(x.shape)})"
        )
    if not x.is_floating_point():
        raise TypeError(f"Expected '{name}' of a floating-point type (got {x.dtype})")
    if x.device != like.device:
        raise ValueError(
            f"Expected '{name}' on the lattice's device {like.device} (got {x.device}); "
            f"move one of them with .to()"
        )


def _working_dtype(x: Tensor) -> torch.dtype:
    """Half precision is summed in single."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32
