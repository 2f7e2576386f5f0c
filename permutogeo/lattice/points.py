"""The lattice of a call: built from the given features, or checked against them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from permutogeo.checks import (
    check_pair,
    check_parameters,
    check_points,
    check_same_space,
    fail,
    prefix_errors,
)
from permutogeo.lattice.incidence import Incidence, check_incidence
from permutogeo.lattice.lattice import Lattice
from permutogeo.lattice.occupancy import warn_about_scale
from permutogeo.lattice.precision import working_dtype

Pair = tuple[Tensor, Tensor]
LatticeAndOutput = tuple[Lattice, Incidence | None]
Scale = Callable[[Tensor], Tensor]

# Rows in the sample that is compared.
_SAMPLE = 1024


def resolve_lattice(
    feature: Tensor | Pair | None,
    batch: Tensor | Pair | None = None,
    lattice: Lattice | tuple[Lattice, Incidence] | None = None,
    *,
    layer: Any = None,
    scale: Scale | None = None,
    warn: bool = True,
) -> LatticeAndOutput:
    """Return the lattice that a call works on, and the incidence of its output points.

    Args:
        feature: Coordinates of the points; a pair for input and output points; ``None`` if
            ``lattice`` is given.
        batch: Graph of each point; a pair where ``feature`` is one.
        lattice: The lattice over these points, if the caller has built it.
        layer: The layer that is called; its ``dim`` is checked and its name precedes errors.
        scale: Applied to the features by the layer, such as a division by bandwidths.
        warn: Whether the layer warns about the scale of a lattice that is built.

    Returns:
        The lattice, and the incidence of the output points or ``None`` where these are the input
        points.
    """
    if layer is not None:
        feature = scale_features(layer, feature, lattice, scale)
    found = prefix_errors(layer, _resolve, feature, batch, lattice)
    if layer is not None and lattice is None and warn:
        warn_about_scale(found[0], layer)
    return found


def scale_features(
    layer: Any, feature: Any, lattice: Any, scale: Scale | None
) -> Tensor | Pair | None:
    """Return the scaled features of a call; ``None`` if only a lattice is given."""
    if lattice is not None:
        first = lattice[0] if isinstance(lattice, tuple | list) and lattice else lattice
        check_lattice(layer, "lattice", first)
    if isinstance(feature, tuple | list):
        src, dst = prefix_errors(layer, check_pair, "feature", feature)
        src = _scaled(layer, "feature_src", src, scale)
        return src, _scaled(layer, "feature_dst", dst, scale)
    if feature is None and lattice is not None:
        return None
    return _scaled(layer, "feature", feature, scale)


def check_lattice(layer: Any, name: str, lattice: Any) -> Lattice:
    """Raise unless ``lattice`` is a lattice of the layer's dimension."""
    if not isinstance(lattice, Lattice):
        fail(layer, f"Expected '{name}' to be a Lattice (got {type(lattice).__name__})", TypeError)
    if lattice.feature.shape[1] != layer.dim:
        fail(layer, f"Expected '{name}' of dim={layer.dim} (got one of dim={lattice.dim})")
    lattice.check_unchanged(layer)
    return lattice


def _scaled(layer: Any, name: str, feature: Any, scale: Scale | None) -> Tensor:
    if not isinstance(feature, Tensor):
        fail(layer, f"Expected '{name}' to be a tensor (got {type(feature).__name__})", TypeError)
    if feature.dim() != 2 or feature.shape[1] != layer.dim:
        fail(layer, f"Expected '{name}' of shape [N, {layer.dim}] (got {list(feature.shape)})")
    if not feature.is_floating_point():
        fail(layer, f"Expected '{name}' of a floating-point type (got {feature.dtype})", TypeError)
    if scale is None:
        return feature
    check_parameters(layer, feature, f"'{name}'")
    return scale(feature.to(working_dtype(feature)))


def _resolve(feature: Any, batch: Any, lattice: Any) -> LatticeAndOutput:
    if lattice is not None:
        return _check_given(feature, batch, lattice)
    if isinstance(feature, tuple | list):
        batches = (None, None) if batch is None else check_pair("batch", batch)
        return Lattice.build_bipartite(*check_pair("feature", feature), *batches)
    if isinstance(batch, tuple | list):
        raise ValueError("Expected 'batch' to be one tensor, as 'feature' is (got a pair)")
    if feature is None:
        raise TypeError("Expected 'feature' or 'lattice' (got neither)")
    return Lattice.build(feature, batch), None


def _check_given(feature: Any, batch: Any, lattice: Any) -> LatticeAndOutput:
    """Check a given lattice against the points that are given with it."""
    bipartite = isinstance(lattice, tuple | list)
    lattice, at = check_pair("lattice", lattice) if bipartite else (lattice, None)
    if not isinstance(lattice, Lattice):
        raise TypeError(f"Expected 'lattice' to be a Lattice (got {type(lattice).__name__})")
    lattice.check_unchanged()
    if bipartite:
        check_incidence(None, at, lattice)
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
            known = lattice.others if lattice.is_output(at) else None
            _check_same("at", dst, batch_dst, at, known)
    return lattice, at


def _check_same(
    name: str,
    feature: Tensor | None,
    batch: Tensor | None,
    points: Lattice | Incidence,
    known: tuple[Tensor, Tensor | None] | None,
) -> None:
    """Raise if ``points`` were built from other features; a sample of rows is compared.

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
        check_same_space("feature", feature, known[0])
        count = len(feature)
        rows = torch.arange(0, count, -(-count // _SAMPLE) or 1, device=feature.device)
        if feature is not known[0]:
            _check_same_features(name, feature[rows], known[0][rows], rows)
        if batch is not None and batch is not known[1]:
            _check_same_graphs(name, batch[rows], known[1], rows)


def _check_same_features(name: str, wanted: Tensor, got: Tensor, rows: Tensor) -> None:
    # Within a tolerance: the caller may divide where a layer multiplies.
    apart = (wanted.double() - got.double()).abs() > 1e-4 * (1 + wanted.abs())
    if apart.any():
        i = int(apart.any(1).nonzero()[0])
        raise ValueError(
            f"Expected '{name}' built from the points of 'feature' (got one whose row "
            f"{int(rows[i])} is {got[i].tolist()} instead of {wanted[i].tolist()})"
        )


def _check_same_graphs(name: str, wanted: Tensor, batch: Tensor | None, rows: Tensor) -> None:
    # Without a batch vector, all points are one graph, of any number.
    got = wanted[:1].expand_as(wanted) if batch is None else batch[rows]
    apart = (wanted != got).nonzero()
    if len(apart):
        i = int(apart[0])
        raise ValueError(
            f"Expected '{name}' built with the graphs of 'batch' (got one whose row "
            f"{int(rows[i])} is in graph {int(got[i])} instead of {int(wanted[i])})"
        )
