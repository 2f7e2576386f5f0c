"""Argument parsing of :class:`DenseCRF` and :class:`CRFLoss`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from permutogeo.checks import (
    check_batch,
    check_finite,
    check_matrix,
    check_normalization,
    check_not_vmapped,
    check_parameters,
    fail,
    prefix_errors,
)
from permutogeo.lattice import Lattice
from permutogeo.nn.crf.compatibility import Compatibility
from permutogeo.nn.crf.kernels import CRFKernel

_MASK_ADVICE = "; to mask a label, use a large negative number such as -1e4"


def parse_kernels(owner: Any, kernels: Any) -> list[CRFKernel]:
    """Return the kernels as a list."""
    listed = list(kernels) if isinstance(kernels, Sequence | torch.nn.ModuleList) else [kernels]
    for kernel in listed:
        if not isinstance(kernel, CRFKernel):
            fail(
                owner,
                "Expected 'kernels' to hold GaussianKernel or LearnedKernel "
                f"(got {type(kernel).__name__})",
                TypeError,
            )
    return listed


def parse_normalizations(owner: Any, normalize: Any, count: int) -> list[str | None]:
    """Return the normalization of each of ``count`` kernels."""
    listed = _one_or_list(owner, "normalize", normalize, count)
    for each in listed:
        check_normalization(owner, each)
    return listed


def parse_compatibilities(
    owner: Any, compatibility: Any, count: int, learn: bool
) -> list[Compatibility]:
    """Return the compatibility of each of ``count`` kernels."""
    listed = []
    for each in _one_or_list(owner, "compatibility", compatibility, count):
        if not isinstance(each, Compatibility):
            each = prefix_errors(owner, Compatibility, owner.num_classes, each, learn)
        if each.num_classes != owner.num_classes:
            fail(
                owner,
                f"Expected a compatibility of {owner.num_classes} labels "
                f"(got one of {each.num_classes})",
            )
        listed.append(each)
    return listed


def parse_points(
    owner: Any,
    name: str,
    logits: Any,
    kernels: Any,
    features: Any,
    batch: Any,
    lattices: Any,
    num_classes: int = -1,
) -> list[tuple[Any, Any]]:
    """Check the arguments of a call and return the feature and the lattice of each kernel.

    Args:
        name: Argument name of the logits.
        num_classes: Required number of labels; any if negative.
    """
    count = len(kernels)
    device = logits.device if isinstance(logits, Tensor) else torch.device("cpu")
    features = _list_of(owner, "features", features, count)
    lattices = [None] * count if lattices is None else _list_of(owner, "lattices", lattices, count)
    check_not_vmapped(owner, logits)
    check_matrix(owner, name, logits, device=device, channels=num_classes)
    check_parameters(owner, logits)
    check_finite(owner, name, logits, _MASK_ADVICE)
    for m, kernel in enumerate(kernels):
        _check_kernel_points(owner, m, name, logits, kernel, features[m], lattices[m])
    if batch is not None:
        prefix_errors(owner, check_batch, name, logits, "batch", batch)
    return list(zip(features, lattices, strict=True))


def _check_kernel_points(
    owner: Any, m: int, name: str, logits: Tensor, kernel: CRFKernel, feature: Any, lattice: Any
) -> None:
    """Raise unless kernel ``m`` has a feature or a lattice point for each row of the logits."""
    if feature is None and lattice is None:
        fail(owner, f"Expected a tensor or a lattice for kernel {m} (got neither)")
    if feature is None:
        if isinstance(lattice, Lattice) and lattice.num_points != logits.shape[0]:
            fail(
                owner,
                f"Expected 'lattices[{m}]' of the {len(logits)} points of '{name}' "
                f"(got one of {lattice.num_points} points)",
            )
        return
    check_matrix(
        owner,
        f"features[{m}]",
        feature,
        device=logits.device,
        rows=logits.shape[0],
        channels=kernel.dim,
    )


def _one_or_list(owner: Any, name: str, value: Any, count: int) -> list:
    """Return a list with one value for each kernel, from that list or from one value for all."""
    if isinstance(value, list | tuple):
        if len(value) != count:
            fail(owner, f"Expected '{name}' for each of the {count} kernels (got {len(value)})")
        return list(value)
    return [value] * count


def _list_of(owner: Any, name: str, value: Any, count: int) -> list:
    listed = [value] if isinstance(value, Tensor | Lattice) else value
    if not isinstance(listed, list | tuple) or len(listed) != count:
        got = f"{len(listed)}" if isinstance(listed, list | tuple) else type(listed).__name__
        fail(
            owner,
            f"Expected '{name}' to be a list with one for each of the {count} kernels (got {got})",
        )
    return list(listed)
