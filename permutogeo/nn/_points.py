"""From what a layer is called with to the lattice it works on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from permutogeo.checks import working_dtype
from permutogeo.incidence import Incidence
from permutogeo.lattice import Lattice
from permutogeo.nn._check import check_incidence, check_lattice, check_parameters, fail, named

Pair = tuple[Tensor, Tensor]
Points = tuple[Lattice, Incidence | None]

# Rows compared to see whether a given lattice is that of the given features.
_SAMPLE = 1024


def lay_lattice(
    layer: Any,
    feature: Tensor | Pair | None,
    batch: Tensor | Pair | None,
    lattice: Lattice | tuple[Lattice, Incidence] | None,
    scale: Callable[[Tensor], Tensor] | None = None,
) -> Points:
    """The lattice of a call, and where the output points lie if they are not the input points.

    Args:
        scale: What the layer does to features before they are laid out.
    """
    if lattice is not None:
        return _given(layer, feature, lattice, scale)
    if not isinstance(feature, tuple | list):
        name, batch_name = "feature", "batch"
        feature = _scaled(layer, name, feature, scale)
        if isinstance(batch, tuple | list):
            fail(layer, f"Expected '{batch_name}' to be one tensor, as '{name}' is (got a pair)")
        return named(layer, Lattice.build, feature, batch), None
    src, dst = _pair(layer, "feature", feature)
    batch_src, batch_dst = (None, None) if batch is None else _pair(layer, "batch", batch)
    src = _scaled(layer, "feature_src", src, scale)
    dst = _scaled(layer, "feature_dst", dst, scale)
    return named(layer, Lattice.build_bipartite, src, dst, batch_src, batch_dst)


def _given(layer: Any, feature: Any, lattice: Any, scale: Any) -> Points:
    """A lattice that the caller built, checked against the features as far as they are given."""
    pair = isinstance(lattice, tuple | list)
    lattice, at = _pair(layer, "lattice", lattice) if pair else (lattice, None)
    check_lattice(layer, "lattice", lattice)
    if pair:
        check_incidence(layer, at, lattice)
    features = feature if isinstance(feature, tuple | list) else (feature,)
    if len(features) == 2 and not pair:
        fail(
            layer,
            "Expected 'lattice' to be a pair (lattice, at) like 'feature', as "
            "Lattice.build_bipartite returns it (got a Lattice)",
        )
    if torch.compiler.is_compiling():
        return lattice, at
    for rows, points, name in zip(features, (lattice, at), ("lattice", "at"), strict=False):
        if rows is not None and points is not None and len(rows) != points.num_points:
            fail(
                layer,
                f"Expected '{name}' built from the {len(rows)} points of 'feature' "
                f"(got one of {points.num_points} points)",
            )
    if features[0] is not None and features[0] is not lattice.feature:
        _check_same_points(layer, _scaled(layer, "feature", features[0], scale), lattice)
    return lattice, at


def _check_same_points(layer: Any, feature: Tensor, lattice: Lattice) -> None:
    """Raise if a lattice was built from other points; some rows, evenly spread, will tell."""
    rows = torch.arange(0, len(feature), -(-len(feature) // _SAMPLE) or 1, device=feature.device)
    wanted, got = feature[rows].double(), lattice.feature[rows].double()
    # Not to the bit: the caller may have divided where the layer multiplies.
    other = ((wanted - got).abs() > 1e-4 * (1 + wanted.abs())).any(1).nonzero()
    if len(other):
        row = int(rows[other[0]])
        fail(
            layer,
            f"Expected 'lattice' built from the points of 'feature' (got one whose row {row} is "
            f"{lattice.feature[row].tolist()} instead of {feature[row].tolist()})",
        )


def _scaled(layer: Any, name: str, feature: Any, scale: Any) -> Tensor:
    if not isinstance(feature, Tensor):
        fail(layer, f"Expected '{name}' to be a tensor (got {type(feature).__name__})", TypeError)
    if feature.dim() != 2 or feature.shape[1] != layer.dim:
        fail(layer, f"Expected '{name}' of shape [N, {layer.dim}] (got {list(feature.shape)})")
    if not feature.is_floating_point():
        fail(layer, f"Expected '{name}' of a floating-point type (got {feature.dtype})", TypeError)
    if scale is None:
        return feature
    check_parameters(layer, feature)
    return scale(feature.to(working_dtype(feature)))


def _pair(layer: Any, name: str, pair: Any) -> tuple[Any, Any]:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        got = f"{len(pair)} items" if isinstance(pair, tuple | list) else type(pair).__name__
        fail(layer, f"Expected '{name}' to be a pair, for input and output points (got {got})")
    return pair[0], pair[1]
