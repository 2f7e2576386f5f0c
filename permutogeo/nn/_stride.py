"""Between a lattice and that of half the resolution."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from permutogeo.caching import once
from permutogeo.incidence import Incidence
from permutogeo.lattice import Lattice
from permutogeo.nn._check import check_incidence, check_lattice, fail, named
from permutogeo.nn._filter_bank import FilterBankLayer
from permutogeo.ops.convolve_edges import convolve_edges

# Vertices looked at to see whether two lattices belong together.
_SAMPLE = 1024


@dataclass(frozen=True)
class Stride:
    """The edges between fine and coarse vertices.

    A fine vertex lies on a coarse one, or half way between two. Seen from a coarse vertex, the fine
    ones around it are a stencil of radius 1, and ``tap`` is its entry.

    Args:
        coarse: Coarse vertex of each edge, ``[M, 2]``.
        tap: Entry of the stencil, ``[M, 2]``.
        present: Whether there is such an edge, ``[M, 2]``: a vertex on a coarse one has one.
        num_coarse: Vertices of the coarse lattice.
        num_taps: Entries of the stencil.
    """

    coarse: Tensor
    tap: Tensor
    present: Tensor
    num_coarse: int
    num_taps: int
    _cache: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def between(cls, fine: Lattice, coarse: Lattice, at: Incidence) -> Stride:
        """The edges of ``coarse, at = fine.coarsen()``, worked out once."""
        if torch.compiler.is_compiling():
            return cls._between(fine, coarse, at)
        return once(at._cache, "stride", lambda: cls._between(fine, coarse, at))

    @classmethod
    def _between(cls, fine: Lattice, coarse: Lattice, at: Incidence) -> Stride:
        size = fine.dim + 1
        vertex = at.vertex.long()
        above, below = fine.key.long(), coarse.key.long()
        offset = above.unsqueeze(1) - 2 * below[vertex.clamp(min=0)]
        # An offset is D c - sum(c) with c of zeros and ones, and its tap the binary number c.
        total = (-offset[..., :1]) % size
        step = (offset + total).div(size, rounding_mode="floor")
        step = torch.cat([step, total - step.sum(-1, keepdim=True)], -1)
        place = 2 ** torch.arange(fine.dim, -1, -1, device=step.device)
        present = vertex >= 0
        present = torch.stack([present[:, 0], present[:, 1] & (vertex[:, 0] != vertex[:, 1])], 1)
        return cls(vertex, (step * place).sum(-1), present, coarse.num_vertices, 2**size - 1)

    def edges(self) -> tuple[Tensor, Tensor]:
        """Edges from fine to coarse vertices ``[2, E]``, and the tap of each ``[E]``."""
        fine, side = self.present.nonzero(as_tuple=True)
        return torch.stack([fine, self.coarse[fine, side]]), self.tap[fine, side]

    def by_tap(self) -> tuple[Tensor, Tensor, Tensor]:
        """Fine and coarse vertex of each edge ``[2M]``, in the order of taps, and where each tap
        begins ``[taps + 1]``; edges that are not there stand behind the last."""
        return once(self._cache, "by tap", self._by_tap)

    def _by_tap(self) -> tuple[Tensor, Tensor, Tensor]:
        tap = torch.where(self.present, self.tap, self.num_taps).reshape(-1)
        tap, order = torch.sort(tap, stable=True)
        begin = torch.searchsorted(tap, torch.arange(self.num_taps + 1, device=tap.device))
        return order // 2, self.coarse.reshape(-1)[order], begin


def convolve(layer: FilterBankLayer, values: Tensor, stride: Stride, back: bool = False) -> Tensor:
    """The layer's filter along the edges from fine to coarse vertices, or back."""
    weight = layer.filter_weight
    assert weight is not None
    sizes = (stride.coarse.shape[0], stride.num_coarse)
    if layer.fused:
        *ends, begin = stride.by_tap()
        source, target = reversed(ends) if back else ends
        taps = weight.to(values.dtype)
        return convolve_edges(values, taps, source, target, begin, sizes[0 if back else 1])
    edge_index, tap = stride.edges()
    if back:
        edge_index, sizes = edge_index.flip(0), sizes[::-1]
    return layer.send(edge_index, sizes, values, None, tap, weight, explained=True)


def coarsened(
    layer: Any, lattice: Lattice, coarse: Lattice | None, at: Incidence | None
) -> tuple[Lattice, Incidence]:
    """The coarse lattice and the map to it: as given, or made."""
    if coarse is None and at is None:
        return named(layer, lattice.coarsen)
    if coarse is None or at is None:
        missing = "coarse" if coarse is None else "at"
        fail(layer, f"Expected both 'coarse' and 'at', or neither (no '{missing}')")
    check_lattice(layer, "coarse", coarse)
    check_incidence(layer, at, coarse)
    if not torch.compiler.is_compiling() and (coarse, at) != lattice._cache.get("coarse"):
        _check_together(layer, lattice, coarse, at)
    return coarse, at


def _check_together(layer: Any, lattice: Lattice, coarse: Lattice, at: Incidence) -> None:
    """Raise if a coarse lattice is that of other points."""
    if coarse.device != lattice.device:
        fail(layer, f"Expected 'coarse' on {lattice.device} like 'lattice' (got {coarse.device})")
    if at.num_points != lattice.num_vertices:
        fail(
            layer,
            f"Expected 'at' of the {lattice.num_vertices} vertices of 'lattice' "
            f"(got one of {at.num_points})",
        )
    if not _belong(lattice, coarse, at):
        fail(
            layer,
            "Expected 'coarse' and 'at' as lattice.coarsen() returns them "
            f"(got {coarse} and {at} of other points)",
        )


def _belong(fine: Lattice, coarse: Lattice, at: Incidence) -> bool:
    """Whether vertices lie half way between their coarse ones: some, evenly spread, will tell."""
    if at.vertex.shape[1] != 2:
        return False
    count = fine.num_vertices
    rows = torch.arange(0, count, -(-count // _SAMPLE) or 1, device=fine.device)
    rows = rows[(at.vertex[rows] >= 0).all(1)]
    vertex, ends = fine._coordinate()[rows], coarse._coordinate()[at.vertex[rows].long()]
    expected = torch.cat([ends[..., :-1].sum(1), ends[:, 0, -1:]], 1)
    return torch.equal(expected, vertex)
