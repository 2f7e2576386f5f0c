"""Checks at the door of a dense CRF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from permutogeo.lattice import Lattice
from permutogeo.nn._check import check_parameters, check_values, fail, named
from permutogeo.nn._normalizer import check_normalization
from permutogeo.nn.compatibility import Compatibility
from permutogeo.nn.crf_kernel import CRFKernel
from permutogeo.nn.crf_solver import MeanField


def modes(crf: Any) -> None:
    """Raise for options that exclude each other."""
    if crf.tolerance is not None and not crf.tolerance >= 0:
        fail(crf, f"Expected 'tolerance' of at least 0, or None (got {crf.tolerance})")
    if crf.loose and crf.tolerance is not None:
        fail(crf, "Expected no 'tolerance' with loose=True, whose steps all differ")
    if crf.backward != "implicit":
        return
    if crf.loose or not isinstance(crf.solver, MeanField):
        fail(
            crf,
            "Expected backward='implicit' with mean field and loose=False alone: only then is the "
            f"result a fixed point (got loose={crf.loose}, solver={crf.solver})",
        )


def kernels(owner: Any, given: Any) -> list[CRFKernel]:
    """The kernels as a list."""
    found = list(given) if isinstance(given, Sequence | torch.nn.ModuleList) else [given]
    for kernel in found:
        if not isinstance(kernel, CRFKernel):
            fail(
                owner,
                "Expected 'kernels' to hold GaussianKernel or LearnedKernel "
                f"(got {type(kernel).__name__})",
                TypeError,
            )
    return found


def normalizations(owner: Any, given: Any, count: int) -> list[str | None]:
    """The normalization of each kernel."""
    each = _each(owner, "normalize", given, count)
    for normalize in each:
        check_normalization(owner, normalize)
    return each


def compatibilities(owner: Any, given: Any, count: int, learn: bool) -> list[Compatibility]:
    """The compatibility of each kernel."""
    each = []
    for value in _each(owner, "compatibility", given, count):
        if not isinstance(value, Compatibility):
            value = named(owner, Compatibility, owner.num_classes, value, learn)
        if value.num_classes != owner.num_classes:
            fail(
                owner,
                f"Expected a compatibility of {owner.num_classes} labels "
                f"(got one of {value.num_classes})",
            )
        each.append(value)
    return each


def inputs(
    owner: Any,
    name: str,
    logits: Any,
    kernels: Any,
    features: Any,
    batch: Any,
    lattices: Any,
    num_classes: int = -1,
) -> list[tuple[Any, Any]]:
    """Feature and lattice of each kernel.

    Args:
        name: What the logits are called.
        num_classes: How many labels there have to be; any number if negative.
    """
    count = len(kernels)
    features = _listed(owner, "features", features, count)
    lattices = [None] * count if lattices is None else _listed(owner, "lattices", lattices, count)
    device = logits.device if isinstance(logits, Tensor) else torch.device("cpu")
    check_values(owner, name, logits, num_classes, device)
    check_parameters(owner, logits)
    _check_finite(owner, name, logits)
    for m, kernel in enumerate(kernels):
        _check_points(owner, m, name, logits, kernel, features[m], lattices[m])
    if batch is not None and batch.shape != logits.shape[:1]:
        fail(owner, f"Expected 'batch' of shape [{len(logits)}] (got {list(batch.shape)})")
    return list(zip(features, lattices, strict=True))


def _check_finite(owner: Any, name: str, x: Tensor) -> None:
    """Raise for NaN and infinities, naming the row."""
    # A sum costs one pass; the search follows only where it must.
    if torch.compiler.is_compiling() or bool(x.detach().sum().isfinite()):
        return
    bad = (~x.detach().isfinite()).any(1).nonzero()
    if len(bad):
        row = int(bad[0])
        fail(
            owner,
            f"Expected finite '{name}' (got {x[row].tolist()} in row {row}); for a label that "
            "cannot be, give a large negative number such as -1e4",
        )


def _check_points(
    owner: Any, m: int, name: str, logits: Tensor, kernel: CRFKernel, feature: Any, lattice: Any
) -> None:
    """Raise unless kernel ``m`` has a row for each point."""
    if feature is None and lattice is None:
        fail(owner, f"Expected a tensor or a lattice for kernel {m} (got neither)")
    if feature is None:
        if isinstance(lattice, Lattice) and lattice.num_points != len(logits):
            fail(
                owner,
                f"Expected 'lattices[{m}]' of the {len(logits)} points of '{name}' "
                f"(got one of {lattice.num_points} points)",
            )
        return
    if not isinstance(feature, Tensor):
        fail(
            owner,
            f"Expected 'features[{m}]' to be a tensor (got {type(feature).__name__})",
            TypeError,
        )
    if feature.shape != (len(logits), kernel.dim):
        fail(
            owner,
            f"Expected 'features[{m}]' of shape [{len(logits)}, {kernel.dim}], a row for each row "
            f"of '{name}' and the dim of the kernel (got {list(feature.shape)})",
        )
    if feature.device != logits.device:
        fail(owner, f"Expected 'features[{m}]' on {logits.device} (got {feature.device})")


def _each(owner: Any, name: str, given: Any, count: int) -> list:
    """One value for all kernels, or a list with one for each."""
    if isinstance(given, list | tuple):
        if len(given) != count:
            fail(owner, f"Expected '{name}' for each of the {count} kernels (got {len(given)})")
        return list(given)
    return [given] * count


def _listed(owner: Any, name: str, given: Any, count: int) -> list:
    found = [given] if isinstance(given, Tensor | Lattice) else given
    if not isinstance(found, list | tuple) or len(found) != count:
        got = f"{len(found)}" if isinstance(found, list | tuple) else type(found).__name__
        fail(
            owner,
            f"Expected '{name}' to be a list with one for each of the {count} kernels (got {got})",
        )
    return list(found)
