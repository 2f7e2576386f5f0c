"""Checkpoints without pickle: tensors as safetensors, everything else as JSON in the same file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from permutogeo.weights import read_safetensors, write_safetensors

_ENTRY = "permutogeo"
_PLAIN = (str, bool, int, float, type(None))


def save_state(state: Any, path: str | os.PathLike[str]) -> None:
    """Write numbers, strings and tensors in nested lists, tuples and dictionaries.

    Args:
        state: Such as the ``state_dict`` of a model or an optimizer.
        path: The file to write; a failed write leaves the previous file in place.

    Example:
        >>> import tempfile, torch
        >>> from pathlib import Path
        >>> from permutogeo.train import load_state, save_state
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_state({"epoch": 3, "betas": (0.9, 0.99), "w": torch.ones(2)}, f"{folder}/a")
        ...     load_state(f"{folder}/a")
        {'epoch': 3, 'betas': (0.9, 0.99), 'w': tensor([1., 1.])}
    """
    tensors: dict[str, Tensor] = {}
    encoded = _encode(state, "", tensors)
    write_safetensors(path, tensors, {_ENTRY: encoded})


def load_state(path: str | os.PathLike[str]) -> Any:
    """Return what :func:`save_state` wrote, with tensors on the CPU."""
    path = Path(path)
    tensors, encoded = read_safetensors(path, _ENTRY, needs_checksum=True)
    if encoded is None:
        raise ValueError(f"'{path}': Expected a checkpoint (got weights alone)")
    try:
        return _decode(encoded, tensors)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"'{path}': Expected a checkpoint (got a damaged one: {error})") from error


def save_weights(model: torch.nn.Module, path: str | os.PathLike[str]) -> None:
    """Write the parameters and buffers of a model under their names.

    A failed write leaves the previous file in place.
    """
    weights = model.state_dict()
    for name, value in weights.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"Expected '{name}' of the model to be a tensor (got {type(value)})")
    write_safetensors(path, weights)


def load_weights(model: torch.nn.Module, path: str | os.PathLike[str]) -> None:
    """Load the parameters and buffers that :func:`save_weights` wrote into a model."""
    assign_weights(model, read_safetensors(path)[0], path)


def assign_weights(model: torch.nn.Module, weights: dict[str, Tensor], origin: Any) -> None:
    """Load a complete state dictionary into a model; errors name its origin."""
    try:
        model.load_state_dict(weights)
    except (RuntimeError, AttributeError, TypeError) as error:
        raise ValueError(
            f"'{origin}': Expected the weights of {type(model).__name__} ({error})"
        ) from error


def _encode(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """Return a value as JSON; its tensors are moved to ``tensors`` under their names."""
    if isinstance(value, Tensor):
        # Dots in keys can make two names equal.
        key = name.lstrip(".") if name.lstrip(".") not in tensors else f"{name}#{len(tensors)}"
        tensors[key] = value
        return {"tensor": key}
    if isinstance(value, (list, tuple)):
        inner = [_encode(part, f"{name}.{i}", tensors) for i, part in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": inner}
    if isinstance(value, dict):
        # Pairs, since the keys of an optimizer's state are integers.
        return {"dict": [[k, _encode(v, f"{name}.{k}", tensors)] for k, v in value.items()]}
    if not isinstance(value, _PLAIN):
        raise TypeError(
            f"Expected numbers, strings, tensors, lists and dictionaries to save "
            f"(got {type(value).__name__} in '{name.lstrip('.')}')"
        )
    return value


def _decode(encoded: Any, tensors: dict[str, Tensor]) -> Any:
    if not isinstance(encoded, dict):
        return encoded
    (kind, inner), *_ = encoded.items()
    if kind == "tensor":
        return tensors[inner]
    if kind == "dict":
        return {key: _decode(value, tensors) for key, value in inner}
    parts = [_decode(value, tensors) for value in inner]
    return tuple(parts) if kind == "tuple" else parts
