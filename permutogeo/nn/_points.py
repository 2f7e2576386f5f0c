"""From what a layer is called with to the lattice it works on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from permutogeo import _points
from permutogeo._points import Pair, Points
from permutogeo.checks import working_dtype
from permutogeo.incidence import Incidence
from permutogeo.lattice import Lattice
from permutogeo.nn._check import check_lattice, check_parameters, fail, named

Scale = Callable[[Tensor], Tensor]


def lay_lattice(
    layer: Any,
    feature: Tensor | Pair | None,
    batch: Tensor | Pair | None,
    lattice: Lattice | tuple[Lattice, Incidence] | None,
    scale: Scale | None = None,
) -> Points:
    """The lattice of a call, and where the output points lie if they are not the input points.

    Args:
        scale: What the layer does to features before they are laid out.
    """
    feature = scaled(layer, feature, lattice, scale)
    return named(layer, _points.lay_lattice, feature, batch, lattice)


def scaled(layer: Any, feature: Any, lattice: Any, scale: Scale | None) -> Tensor | Pair | None:
    """The features as they are laid out, where they are given; a lattice may be in their place."""
    if lattice is not None:
        first = lattice[0] if isinstance(lattice, tuple | list) and lattice else lattice
        check_lattice(layer, "lattice", first)
    if isinstance(feature, tuple | list):
        src, dst = named(layer, _points.pair, "feature", feature)
        src = _scaled(layer, "feature_src", src, scale)
        return src, _scaled(layer, "feature_dst", dst, scale)
    if feature is None and lattice is not None:
        return None
    return _scaled(layer, "feature", feature, scale)


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
