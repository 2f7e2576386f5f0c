"""Checks at the door of a layer: one sentence that names layer, argument, expected and got."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor

from permutogeo import incidence, stencils
from permutogeo.incidence import Incidence
from permutogeo.lattice import Lattice


def fail(layer: Any, sentence: str, kind: type[Exception] = ValueError) -> NoReturn:
    """Raise ``kind`` with the layer's name before the sentence."""
    raise kind(f"{type(layer).__name__}: {sentence}")


def named(layer: Any, function: Callable, *arguments: Any) -> Any:
    """Call a function, and set the layer's name before its errors."""
    if torch.compiler.is_compiling():
        return function(*arguments)
    try:
        return function(*arguments)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{type(layer).__name__}: {error}") from None


def check_values(
    layer: Any,
    name: str,
    x: Any,
    channels: int,
    device: torch.device,
    rows: int | None = None,
    things: str = "points",
    owner: str = "lattice",
) -> None:
    """Raise unless ``x`` is a float matrix of ``channels`` columns, with a row for each thing."""
    if torch.compiler.is_compiling():
        return
    if not isinstance(x, Tensor):
        fail(layer, f"Expected '{name}' to be a tensor (got {type(x).__name__})", TypeError)
    if not x.is_floating_point():
        fail(layer, f"Expected '{name}' of a floating-point type (got {x.dtype})", TypeError)
    width = "C" if channels < 0 else channels
    count = "N" if rows is None else rows
    if x.dim() != 2 or x.shape[1] != (x.shape[1] if channels < 0 else channels):
        fail(layer, f"Expected '{name}' of shape [{count}, {width}] (got {list(x.shape)})")
    if rows is not None and x.shape[0] != rows:
        fail(
            layer,
            f"Expected '{name}' of shape [{rows}, {width}], one row for each of the {rows} "
            f"{things} of '{owner}' (got {list(x.shape)})",
        )
    if x.device != device:
        fail(layer, f"Expected '{name}' on {device} like the lattice (got {x.device})")


def check_parameters(layer: Any, x: Tensor, what: str = "input") -> None:
    """Raise if the layer's parameters are on another device than its input."""
    if torch.compiler.is_compiling():
        return
    for name, parameter in layer.named_parameters():
        if parameter.device != x.device:
            fail(
                layer,
                f"Expected {what} on {parameter.device} like the parameter '{name}' "
                f"(got {x.device}); move one of them with .to()",
            )


def check_lattice(layer: Any, name: str, lattice: Any) -> Lattice:
    """Raise unless ``lattice`` is one of the layer's dimension."""
    if not isinstance(lattice, Lattice):
        fail(layer, f"Expected '{name}' to be a Lattice (got {type(lattice).__name__})", TypeError)
    if lattice.dim != layer.dim:
        fail(layer, f"Expected '{name}' of dim={layer.dim} (got one of dim={lattice.dim})")
    return lattice


def check_incidence(layer: Any, at: Any, lattice: Lattice) -> Incidence:
    """Raise unless ``at`` says where points lie on ``lattice``."""
    return named(layer, incidence.check_incidence, at, lattice.incidence)


def check_choice(layer: Any, name: str, value: Any, choices: tuple) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    # Not `in` alone: True == 1, and a tensor compares element by element.
    if not any(value is choice or (type(value) is str and value == choice) for choice in choices):
        *first, last = (repr(choice) for choice in choices)
        fail(layer, f"Expected '{name}' to be {', '.join(first)} or {last} (got {value!r})")


def check_count(layer: Any, name: str, value: Any, least: int = 1) -> None:
    """Raise unless ``value`` is an integer of at least ``least``."""
    named(layer, stencils.check_integer, name, value, least)
