"""Between a lattice and that of half the resolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from permutogeo.incidence import Incidence
from permutogeo.lattice import Lattice
from permutogeo.nn._check import check_incidence, check_lattice, fail


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

    @classmethod
    def between(cls, fine: Lattice, coarse: Lattice, at: Incidence) -> Stride:
        """The edges of ``coarse, at = fine.coarsen()``."""
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

    def cell(self) -> Tensor:
        """Where an edge stands in a table ``[coarse vertices, taps]``, flattened: ``[M, 2]``.

        An edge that is not there stands behind the table.
        """
        place = self.coarse * self.num_taps + self.tap
        return torch.where(self.present, place, self.num_coarse * self.num_taps)

    def table(self) -> Tensor:
        """The fine vertex at each tap of each coarse one, ``[coarse vertices, taps]``.

        Where there is none, it is the number of fine vertices.
        """
        count = self.coarse.shape[0]
        fine = torch.arange(count, device=self.coarse.device).unsqueeze(1).expand(-1, 2)
        table = self.coarse.new_full((self.num_coarse * self.num_taps + 1,), count)
        table = table.scatter(0, self.cell().reshape(-1), fine.reshape(-1))
        return table[:-1].view(self.num_coarse, self.num_taps)


def coarsened(
    layer: Any, lattice: Lattice, coarse: Lattice | None, at: Incidence | None
) -> tuple[Lattice, Incidence]:
    """The coarse lattice and the map to it: as given, or made."""
    if coarse is None and at is None:
        return lattice.coarsen()
    if coarse is None or at is None:
        missing = "coarse" if coarse is None else "at"
        fail(layer, f"Expected both 'coarse' and 'at', or neither (no '{missing}')")
    check_lattice(layer, "coarse", coarse)
    check_incidence(layer, at, coarse)
    if not torch.compiler.is_compiling() and at.num_points != lattice.num_vertices:
        fail(
            layer,
            f"Expected 'at' of the {lattice.num_vertices} vertices of 'lattice' "
            f"(got one of {at.num_points})",
        )
    return coarse, at
