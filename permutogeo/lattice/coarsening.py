"""The lattice of half the resolution, which follows from the codes of a lattice."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from permutogeo import ops
from permutogeo.checks import check_has_data
from permutogeo.lattice.incidence import Incidence
from permutogeo.ops import boxes
from permutogeo.ops.stencils import tap_variance

if TYPE_CHECKING:
    from permutogeo.lattice.lattice import Lattice


def coarsened(lattice: Lattice) -> tuple[Lattice, Incidence]:
    """Return the lattice of ``feature / 2``, and the incidence of the vertices on it.

    The points are located on the coarse lattice when its incidence is used: pooling needs the codes
    alone.
    """
    check_has_data(lattice.feature)
    code, box, vertex = ops.coarsen(lattice.code, lattice.box)
    others = lattice.others and (lattice.others[0] / 2, lattice.others[1])
    feature = lattice.feature / 2
    coarse = replace(
        lattice, feature=feature, located=None, code=code, box=box, others=others, _cache={}
    )
    at = Incidence(vertex, feature.new_full(vertex.shape, 0.5), code.shape[0], complete=True)
    _inherit(coarse, lattice, vertex)
    return coarse, at


def _inherit(coarse: Lattice, fine: Lattice, vertex: Tensor) -> None:
    """Hand down what is known of the fine lattice: its stencils, and the masses.

    Interpolation on the two lattices is nested: half the mass of a fine vertex goes to each end.
    """
    for key, known in fine._cache.items():
        kind = key[0] if type(key) is tuple else None
        if kind == "opposite":
            coarse._cache[key] = known
        elif kind == "mass":
            half = known.squeeze(1) * 0.5
            mass = half.new_zeros(coarse.num_vertices)
            for end in vertex.unbind(1):
                mass.index_add_(0, end, half)
            coarse._cache[key] = mass.unsqueeze(1)


def locate_own(lattice: Lattice) -> Incidence:
    """Return the incidence of a coarse lattice's own points, all of whose corners it has."""
    if torch.compiler.is_compiling():
        return _locate(lattice)
    with torch.set_grad_enabled(lattice.feature.requires_grad):  # whoever asks first
        return _locate(lattice)


def _locate(lattice: Lattice) -> Incidence:
    feature, batch = lattice.feature, lattice.batch
    variance = tap_variance(lattice.taps)
    weight, vertex = ops.locate(
        feature, batch, lattice.code, lattice.box, lattice.hash_table(), variance
    )
    # On a face between simplices, rounding may choose another one than on the finer lattice. The
    # weight of the corner that is then absent is a rounding error.
    vertex = torch.where(vertex < 0, vertex.amax(1, keepdim=True).clamp(min=0), vertex)
    graphs = None if batch is None else (batch, boxes.graph(lattice.code, lattice.box))
    return Incidence(vertex, weight, lattice.num_vertices, True, graphs)
