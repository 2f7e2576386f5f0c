"""Strided convolution between a lattice and the lattice of half the resolution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from permutogeo.checks import fail, prefix_errors
from permutogeo.lattice import Incidence, Lattice
from permutogeo.lattice.caching import cached
from permutogeo.lattice.incidence import check_incidence
from permutogeo.lattice.points import check_lattice
from permutogeo.nn.filter_bank import FilterBankLayer
from permutogeo.ops import convolve_edges, vertex_order

# Vertices compared to find out whether a coarse lattice belongs to a fine one.
_SAMPLE = 1024


@dataclass(frozen=True)
class StrideEdges:
    """The edges of a convolution of stride 2, from fine to coarse vertices.

    A fine vertex lies on a coarse vertex or half way between two. The fine vertices around a coarse
    one form the stencil of radius 1.

    Args:
        keys: Returns the keys of the fine vertices ``[M, d]`` and of the coarse ones ``[M', d]``.
        coarse: Coarse vertex of each edge, ``[M, 2]``.
        num_coarse: Number of coarse vertices.
        dim: Feature dimension.
    """

    keys: Callable[[], tuple[Tensor, Tensor]]
    coarse: Tensor
    num_coarse: int
    dim: int
    _cache: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def between(
        cls, fine: Lattice, coarse: Lattice, at: Incidence, transpose: bool = False
    ) -> StrideEdges:
        """Return the edges for ``coarse, at = fine.coarsen()``, cached on ``at``.

        On a sharded lattice they are the edges that end on this rank: at its coarse vertices, from
        the fine ones of ``at.pull``, or if ``transpose`` at its fine vertices, from the coarse ones
        of ``at.spread``.
        """

        def make() -> StrideEdges:
            if transpose:
                keys = lambda: (fine.key, at.spread(coarse.key))  # noqa: E731
                return cls(keys, at.vertex, at.num_rows, fine.dim)
            keys = lambda: (at.pull(fine.key), coarse.key)  # noqa: E731
            return cls(keys, at.pulled_vertex(), coarse.num_vertices, fine.dim)

        if torch.compiler.is_compiling():
            return make()
        return at.cached("unstride" if transpose and at.sharded else "stride", make)

    @property
    def present(self) -> Tensor:
        """Whether each edge exists, ``[M, 2]``; a vertex on a coarse one has a single edge."""
        return cached(self._cache, "present", self._present)

    def _present(self) -> Tensor:
        first, second = self.coarse.unbind(1)
        return torch.stack([first >= 0, (second >= 0) & (first != second)], 1)

    @property
    def num_taps(self) -> int:
        """Number of taps of the stencil."""
        return 2 ** (self.dim + 1) - 1

    @property
    def tap(self) -> Tensor:
        """Tap of each edge, ``[M, 2]``."""
        size = self.dim + 1
        fine, coarse = self.keys()
        below = torch.cat([coarse.long(), coarse.new_zeros(1, self.dim).long()])
        offset = fine.long().unsqueeze(1) - 2 * below[self.coarse.long()]
        # An offset is D c - sum(c) with c in {0, 1}^D; the digits of c in base 2 are its tap.
        total = (-offset[..., :1]) % size
        step = (offset + total).div(size, rounding_mode="floor")
        step = torch.cat([step, total - step.sum(-1, keepdim=True)], -1)
        place = 2 ** torch.arange(self.dim, -1, -1, device=step.device)
        return (step * place).sum(-1)

    def edges(self) -> tuple[Tensor, Tensor]:
        """Return the edges from fine to coarse vertices ``[2, E]`` and their taps ``[E]``."""
        fine, side = self.present.nonzero(as_tuple=True)
        return torch.stack([fine, self.coarse[fine, side].long()]), self.tap[fine, side]

    def by_tap(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the edges sorted by tap: fine and coarse vertices ``[2, 2M]``, the offset of each
        tap ``[taps + 1]``, and the taps ``[taps]``. Absent edges follow the last tap."""
        return cached(self._cache, "by tap", self._by_tap)

    def _by_tap(self) -> tuple[Tensor, Tensor, Tensor]:
        taps = torch.arange(self.num_taps, device=self.coarse.device)
        tap = torch.where(self.present, self.tap, self.num_taps).reshape(-1)
        tap, order = torch.sort(tap, stable=True)
        begin = torch.searchsorted(tap, torch.arange(self.num_taps + 1, device=tap.device))
        edges = torch.stack([order // 2, self.coarse.reshape(-1)[order]]).to(torch.int32)
        return edges, begin, taps

    def by_coarse(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the coarse vertex of each edge ``[M, 2]``, the number of them where absent, the
        edges sorted by coarse vertex ``[2M]``, and the offset of each vertex."""
        return cached(self._cache, "by coarse", self._by_coarse)

    def _by_coarse(self) -> tuple[Tensor, Tensor, Tensor]:
        vertex = torch.where(self.present, self.coarse, self.num_coarse).to(torch.int32)
        return vertex, *vertex_order(vertex, self.num_coarse + 1)


def strided_convolve(
    layer: FilterBankLayer, values: Tensor, stride: StrideEdges, transpose: bool = False
) -> Tensor:
    """Convolve from fine to coarse vertices with the layer's filter, or transposed."""
    weight = layer.filter_weight
    assert weight is not None
    sizes = (stride.coarse.shape[0], stride.num_coarse)
    if layer.fused:
        edges, begin, taps = stride.by_tap()
        there, back = (edges.flip(0), edges) if transpose else (edges, edges.flip(0))
        indices = (there, begin, back, begin, taps, sizes[0 if transpose else 1])
        return convolve_edges(values, weight.to(values.dtype), *indices)
    edge_index, tap = stride.edges()
    if transpose:
        edge_index, sizes = edge_index.flip(0), sizes[::-1]
    return layer.pass_messages(edge_index, sizes, values, None, tap, weight, explained=True)


def resolve_coarse(
    layer: Any, lattice: Lattice, coarse: Lattice | None, at: Incidence | None
) -> tuple[Lattice, Incidence]:
    """Return the given coarse lattice and incidence after checks, or those of ``coarsen()``."""
    if coarse is None and at is None:
        return prefix_errors(layer, lattice.coarsen)
    if coarse is None or at is None:
        missing = "coarse" if coarse is None else "at"
        fail(layer, f"Expected both 'coarse' and 'at', or neither (no '{missing}')")
    check_lattice(layer, "coarse", coarse)
    check_incidence(layer, at, coarse)
    if not torch.compiler.is_compiling() and not lattice.has_coarsened(coarse, at):
        _check_coarse(layer, lattice, coarse, at)
    return coarse, at


def _check_coarse(layer: Any, lattice: Lattice, coarse: Lattice, at: Incidence) -> None:
    """Raise unless ``coarse`` and ``at`` belong to ``lattice``."""
    if coarse.device != lattice.device:
        fail(layer, f"Expected 'coarse' on {lattice.device} like 'lattice' (got {coarse.device})")
    if at.num_points != lattice.num_vertices:
        fail(
            layer,
            f"Expected 'at' of the {lattice.num_vertices} vertices of 'lattice' "
            f"(got one of {at.num_points})",
        )
    if not _is_coarsening(lattice, coarse, at):
        fail(
            layer,
            "Expected 'coarse' and 'at' as lattice.coarsen() returns them "
            f"(got {coarse} and {at} of other points)",
        )


def _is_coarsening(fine: Lattice, coarse: Lattice, at: Incidence) -> bool:
    """Whether fine vertices lie half way between their coarse ones, for evenly spaced samples."""
    if at.vertex.shape[1] != 2:
        return False
    count = fine.num_vertices
    rows = torch.arange(0, count, -(-count // _SAMPLE) or 1, device=fine.device)
    rows = rows[(at.vertex[rows] >= 0).all(1)]
    vertex, ends = fine.coordinate[rows], coarse.coordinate[at.vertex[rows].long()]
    expected = torch.cat([ends[..., :-1].sum(1), ends[:, 0, -1:]], 1)
    return torch.equal(expected, vertex)
