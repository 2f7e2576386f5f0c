"""From what a filter is called with to the lattice it works on."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from permutogeo.checks import check_alike, check_points
from permutogeo.incidence import Incidence, check_incidence
from permutogeo.lattice import Lattice

Pair = tuple[Tensor, Tensor]
Points = tuple[Lattice, Incidence | None]

# Rows compared to see whether a given lattice is that of the given points.
_SAMPLE = 1024


def lay_lattice(
    feature: Tensor | Pair | None,
    batch: Tensor | Pair | None = None,
    lattice: Lattice | tuple[Lattice, Incidence] | None = None,
) -> Points:
    """The lattice of a call, and where the output points lie if they are not the input points.

    Args:
        feature: Coordinates of the points; a pair for input and output points; ``None`` if
            ``lattice`` is given.
        batch: Graph of each point; a pair where ``feature`` is one.
        lattice: What the caller has built over these points, if anything.
    """
    if lattice is not None:
        return _given(feature, batch, lattice)
    if isinstance(feature, tuple | list):
        batches = (None, None) if batch is None else pair("batch", batch)
        return Lattice.build_bipartite(*pair("feature", feature), *batches)
    if isinstance(batch, tuple | list):
        raise ValueError("Expected 'batch' to be one tensor, as 'feature' is (got a pair)")
    if feature is None:
        raise TypeError("Expected 'feature' or 'lattice' (got neither)")
    return Lattice.build(feature, batch), None


def pair(name: str, value: Any) -> tuple[Any, Any]:
    """Raise unless ``value`` is a pair."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        got = f"{len(value)} items" if isinstance(value, tuple | list) else type(value).__name__
        raise ValueError(f"Expected '{name}' to be a pair, for input and output points (got {got})")
    return value[0], value[1]


def _given(feature: Any, batch: Any, lattice: Any) -> Points:
    """A lattice that the caller built, checked against the points as far as they are given."""
    two = isinstance(lattice, tuple | list)
    lattice, at = pair("lattice", lattice) if two else (lattice, None)
    if not isinstance(lattice, Lattice):
        raise TypeError(f"Expected 'lattice' to be a Lattice (got {type(lattice).__name__})")
    if two:
        check_incidence(at, lattice.incidence)
    elif isinstance(feature, tuple | list):
        raise ValueError(
            "Expected 'lattice' to be a pair (lattice, at) like 'feature', as "
            "Lattice.build_bipartite returns it (got a Lattice)"
        )
    if not torch.compiler.is_compiling():
        src, dst = feature if isinstance(feature, tuple | list) else (feature, None)
        batch_src, batch_dst = batch if isinstance(batch, tuple | list) else (batch, None)
        _check_same("lattice", src, batch_src, lattice, (lattice.feature, lattice.batch))
        if at is not None:
            known = lattice.others if lattice._cache.get("others") is at else None
            _check_same("at", dst, batch_dst, at, known)
    return lattice, at


def _check_same(
    name: str,
    feature: Tensor | None,
    batch: Tensor | None,
    points: Lattice | Incidence,
    known: tuple[Tensor, Tensor | None] | None,
) -> None:
    """Raise if ``points`` were made from others; some rows, evenly spread, will tell.

    Args:
        known: Feature and batch of ``points``, where they are known.
    """
    if feature is None:
        return
    if len(feature) != points.num_points:
        raise ValueError(
            f"Expected '{name}' built from the {len(feature)} points of 'feature' "
            f"(got one of {points.num_points} points)"
        )
    if known is not None:
        check_points("feature", feature, "batch", batch)
        check_alike("feature", feature, known[0])
        count = len(feature)
        rows = torch.arange(0, count, -(-count // _SAMPLE) or 1, device=feature.device)
        if feature is not known[0]:
            _check_same_features(name, feature[rows], known[0][rows], rows)
        if batch is not None and batch is not known[1]:
            _check_same_graphs(name, batch[rows], known[1], rows)


def _check_same_features(name: str, wanted: Tensor, got: Tensor, rows: Tensor) -> None:
    # Not to the bit: the caller may have divided where a layer multiplies.
    apart = (wanted.double() - got.double()).abs() > 1e-4 * (1 + wanted.abs())
    if apart.any():
        i = int(apart.any(1).nonzero()[0])
        raise ValueError(
            f"Expected '{name}' built from the points of 'feature' (got one whose row "
            f"{int(rows[i])} is {got[i].tolist()} instead of {wanted[i].tolist()})"
        )


def _check_same_graphs(name: str, wanted: Tensor, batch: Tensor | None, rows: Tensor) -> None:
    # Without a batch vector, all points are one graph, whatever its number.
    got = wanted[:1].expand_as(wanted) if batch is None else batch[rows]
    apart = (wanted != got).nonzero()
    if len(apart):
        i = int(apart[0])
        raise ValueError(
            f"Expected '{name}' built with the graphs of 'batch' (got one whose row "
            f"{int(rows[i])} is in graph {int(got[i])} instead of {int(wanted[i])})"
        )
