"""Normalization of a kernel by the response of a Gaussian to ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch import Tensor

from permutogeo.lattice.incidence import Incidence
from permutogeo.lattice.lattice import Lattice

Factors = tuple[Tensor | None, Tensor | None]

# Added to the response to ones, so that a point that nothing reaches gives 0.
_EPSILON = 1e-20


def normalizers(
    normalize: str | None,
    lattice: Lattice,
    at: Incidence | None,
    dtype: torch.dtype,
    name: Hashable,
    gaussian: Callable[[Tensor], Tensor],
) -> Factors:
    """Return the factors ``[N, 1]`` on the input and ``[N', 1]`` on the output; ``None`` for none.

    Args:
        at: Output points, if they are not the input points.
        name: Cache key of this Gaussian on the lattice.
        gaussian: Filter from values at vertices to values at vertices.
    """

    if normalize is None:
        return None, None
    response = response_to_ones(lattice, dtype, name, gaussian)
    return factors(
        normalize,
        lambda: lattice.slice(response),
        None if at is None else lambda: lattice.slice(response, at),
    )


def response_to_ones(
    lattice: Lattice, dtype: torch.dtype, name: Hashable, gaussian: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return the filtered splat of ones, ``[M, 1]``; cached."""

    def respond() -> Tensor:
        return gaussian(lattice.splat(lattice.weight.new_ones(lattice.num_points, 1, dtype=dtype)))

    return lattice.cached_constant(response_key(name, dtype), respond)


def response_key(name: Hashable, dtype: torch.dtype) -> Hashable:
    """Return the cache key of :func:`response_to_ones`."""
    return "response", name, dtype


def factors(
    normalize: str | None,
    source: Callable[[], Tensor],
    target: Callable[[], Tensor] | None = None,
) -> Factors:
    """Return the factors on the input and on the output.

    Args:
        source: Returns the response to ones at the input points.
        target: Returns the response at the output points, if they are not the input points.
    """
    power = torch.rsqrt if normalize == "symmetric" else torch.reciprocal
    before = _factor(source(), power) if normalize in ("before", "symmetric") else None
    if normalize in (None, "before"):
        return before, None
    if before is not None and target is None:
        return before, before
    return before, _factor((target or source)(), power)


def normalized(kernel: Callable[[Tensor], Tensor], x: Tensor, factors: Factors) -> Tensor:
    """Apply ``kernel`` between the factors on its input and on its output."""
    before, after = factors
    out = kernel(x if before is None else x * before)
    return out if after is None else out * after


def normalized_after(kernel: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply ``kernel`` and divide by its response to ones, both in one pass."""
    return divide_by_mass(kernel(append_ones(x)))


def append_ones(x: Tensor) -> Tensor:
    """Append a channel of ones, whose filtered values are the mass for :func:`divide_by_mass`."""
    return torch.cat([x, torch.ones_like(x[..., :1])], -1)


def divide_by_mass(sums: Tensor, mass: Tensor | None = None) -> Tensor:
    """Divide by the mass, by default the last channel, which is dropped; 0 where the mass, and so
    each sum, is 0.

    Args:
        sums: Filtered :func:`append_ones`, ``[..., C + 1]``, by a kernel without negative weights;
            the filtered values ``[..., C]`` alone if ``mass`` is given.
        mass: Filtered ones, ``[..., 1]``.
    """
    if mass is None:
        sums, mass = sums[..., :-1], sums[..., -1:]
    # The gradient stays finite where the mass is 0.
    return sums / torch.where(mass > 0, mass + _EPSILON, 1.0)


def _factor(response: Tensor, power: Callable[[Tensor], Tensor]) -> Tensor:
    """Return a negative power of the response, and 0 where the response is 0.

    Learned taps that the Gaussian lacks (of radius 3 and more) reach such points: dividing by
    epsilon would make their values huge and the gradient NaN.
    """
    return power(torch.where(response > 0, response + _EPSILON, torch.inf))
