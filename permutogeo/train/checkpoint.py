"""Checkpoints: tensors as safetensors, the rest as JSON in the same file, and no pickle.

A file is written beside its target and then takes its place, so that it is whole at every moment.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from permutogeo.data._files import check_readable, replacing

_ENTRY = "permutogeo"
_PLAIN = (str, bool, int, float, type(None))


def save_state(state: Any, path: str | os.PathLike[str]) -> None:
    """Write numbers, strings and tensors in nested lists, tuples and dictionaries.

    Args:
        state: What to keep, such as the ``state_dict`` of a model or an optimizer.
        path: The file, replaced as a whole.

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
    described = json.dumps(_describe(state, "", tensors))
    _write(tensors, Path(path), {_ENTRY: described})


def load_state(path: str | os.PathLike[str]) -> Any:
    """What :func:`save_state` wrote, on the CPU."""
    path = Path(path)
    tensors, described = _read(path)
    if described is None:
        raise ValueError(f"'{path}': Expected a checkpoint (got weights alone)")
    try:
        return _restore(json.loads(described), tensors)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"'{path}': Expected a checkpoint (got a damaged one: {error})") from error


def save_weights(model: torch.nn.Module, path: str | os.PathLike[str]) -> None:
    """Write a model's parameters and buffers under their own names, whole or not at all."""
    _write({name: _plain_copy(value) for name, value in _weights(model).items()}, Path(path))


def load_weights(model: torch.nn.Module, path: str | os.PathLike[str]) -> None:
    """Give a model the parameters and buffers that :func:`save_weights` wrote."""
    put_weights(model, _read(Path(path))[0], path)


def put_weights(model: torch.nn.Module, weights: dict[str, Tensor], origin: Any) -> None:
    """Load a state dictionary, all of it, with an error that names where it came from."""
    try:
        model.load_state_dict(weights)
    except (RuntimeError, AttributeError, TypeError) as error:
        raise ValueError(
            f"'{origin}': Expected the weights of {type(model).__name__} ({error})"
        ) from error


def _weights(model: torch.nn.Module) -> dict[str, Tensor]:
    weights = model.state_dict()
    for name, value in weights.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"Expected '{name}' of the model to be a tensor (got {type(value)})")
    return weights


def _plain_copy(value: Tensor) -> Tensor:
    # Tied weights share memory, which a file of safetensors cannot say.
    return value.detach().to("cpu", copy=True).contiguous()


def _write(tensors: dict[str, Tensor], path: Path, notes: dict[str, str] | None = None) -> None:
    with replacing(path) as temporary:
        # Not save_file, which makes a file that only its owner may read.
        temporary.write_bytes(save(tensors, notes))


def _read(path: Path) -> tuple[dict[str, Tensor], str | None]:
    check_readable(path)
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, (file.metadata() or {}).get(_ENTRY)
    except SafetensorError as error:
        raise ValueError(f"'{path}': Expected a file of safetensors ({error})") from error


def _describe(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """JSON for a value, with its tensors put aside under their names."""
    if isinstance(value, Tensor):
        # Dots in keys may make two names one.
        key = name.lstrip(".") if name.lstrip(".") not in tensors else f"{name}#{len(tensors)}"
        tensors[key] = _plain_copy(value)
        return {"tensor": key}
    if isinstance(value, (list, tuple)):
        inner = [_describe(part, f"{name}.{i}", tensors) for i, part in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": inner}
    if isinstance(value, dict):
        # Pairs: the keys of an optimizer's state are numbers.
        return {"dict": [[k, _describe(v, f"{name}.{k}", tensors)] for k, v in value.items()]}
    if not isinstance(value, _PLAIN):
        raise TypeError(
            f"Expected numbers, strings, tensors, lists and dictionaries to save "
            f"(got {type(value).__name__} in '{name.lstrip('.')}')"
        )
    return value


def _restore(described: Any, tensors: dict[str, Tensor]) -> Any:
    if not isinstance(described, dict):
        return described
    (kind, inner), *_ = described.items()
    if kind == "tensor":
        return tensors[inner]
    if kind == "dict":
        return {key: _restore(value, tensors) for key, value in inner}
    parts = [_restore(value, tensors) for value in inner]
    return tuple(parts) if kind == "tuple" else parts
