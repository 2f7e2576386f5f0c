"""Normalization of a kernel by the response of a Gaussian to ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch import Tensor

from permutogeo.incidence import Incidence
from permutogeo.lattice import Lattice

NORMALIZATIONS = (None, "before", "after", "symmetric")
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
    """Factors ``[N, 1]`` on the input and ``[N', 1]`` on the output, where there are any.

    Args:
        at: Where the output points lie, if they are not the input points.
        name: What tells this Gaussian from others on the same lattice.
        gaussian: From values at vertices to values at vertices.
    """

    def respond() -> Tensor:
        return gaussian(lattice.splat(lattice.weight.new_ones(lattice.num_points, 1, dtype=dtype)))

    if normalize is None:
        return None, None
    response = lattice._constant(("response", name, dtype), respond)
    return factors(
        normalize,
        lambda: lattice.slice(response),
        None if at is None else lambda: lattice.slice(response, at),
    )


def factors(
    normalize: str | None,
    source: Callable[[], Tensor],
    target: Callable[[], Tensor] | None = None,
) -> Factors:
    """Factors on the input and on the output, from the responses to ones at either.

    Args:
        target: The response at the output points, if they are not the input points.
    """
    power = torch.rsqrt if normalize == "symmetric" else torch.reciprocal
    before = _factor(source(), power) if normalize in ("before", "symmetric") else None
    if normalize in (None, "before"):
        return before, None
    if before is not None and target is None:
        return before, before
    return before, _factor((target or source)(), power)


def normalized(kernel: Callable[[Tensor], Tensor], x: Tensor, factors: Factors) -> Tensor:
    """Apply ``kernel`` between two factors."""
    before, after = factors
    out = kernel(x if before is None else x * before)
    return out if after is None else out * after


def normalized_after(kernel: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply ``kernel``, and divide by its own response to ones, in one pass for both."""
    both = kernel(torch.cat([x, torch.ones_like(x[:, :1])], 1))
    return both[:, :-1] / (both[:, -1:] + _EPSILON)


def _factor(response: Tensor, power: Callable[[Tensor], Tensor]) -> Tensor:
    """A negative power of the normalizer, and 0 where nothing reaches.

    Without the latter, taps that the Gaussian has not (of radius 3 and more) would be divided by
    epsilon, and the gradient there be 0 times infinity.
    """
    return power(torch.where(response > 0, response + _EPSILON, torch.inf))
