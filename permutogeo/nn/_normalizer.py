"""Normalization by the response of a Gaussian to ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

from permutogeo.functional import EPSILON, NORMALIZATIONS
from permutogeo.incidence import Incidence
from permutogeo.lattice import Lattice
from permutogeo.nn._check import check_choice


def check_normalization(layer: Any, normalize: str | None) -> None:
    """Raise unless it is one of the four."""
    check_choice(layer, "normalize", normalize, NORMALIZATIONS)


def normalizers(
    normalize: str | None,
    lattice: Lattice,
    at: Incidence | None,
    dtype: torch.dtype,
    name: Hashable,
    gaussian: Callable[[Tensor], Tensor],
) -> tuple[Tensor | None, Tensor | None]:
    """Factors ``[N, 1]`` on the input and ``[N', 1]`` on the output, where there are any.

    Args:
        at: Where the output points lie, if they are not the input points.
        name: What tells this Gaussian from others on the same lattice.
        gaussian: From values at vertices to values at vertices.
    """
    if normalize is None:
        return None, None

    def respond() -> Tensor:
        return gaussian(lattice.splat(lattice.weight.new_ones(lattice.num_points, 1, dtype=dtype)))

    response = constant(lattice, ("response", name, dtype), respond)
    if normalize == "before":
        return _factor(lattice.slice(response), torch.reciprocal), None
    if normalize == "after":
        return None, _factor(lattice.slice(response, at), torch.reciprocal)
    before = _factor(lattice.slice(response), torch.rsqrt)
    return before, before if at is None else _factor(lattice.slice(response, at), torch.rsqrt)


def _factor(response: Tensor, power: Callable[[Tensor], Tensor]) -> Tensor:
    """A power of the normalizer, and 0 where nothing reaches.

    Without the latter, taps that the Gaussian has not (of radius 3 and more) would be divided by
    epsilon, and the gradient there be 0 times infinity.
    """
    there = response > 0
    return torch.where(there, power(torch.where(there, response, 1.0) + EPSILON), 0.0)


def constant(lattice: Lattice, name: Hashable, make: Callable[[], Tensor]) -> Tensor:
    """Keep a constant with the lattice. What has a gradient belongs to one backward pass alone."""
    differentiable = lattice.weight.requires_grad and torch.is_grad_enabled()
    if differentiable or torch.compiler.is_compiling():
        return make()
    with torch.no_grad():
        return lattice._once(name, make)
