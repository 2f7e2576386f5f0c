"""Weights of trained models: those shipped with the package, and files of the same format."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from permutogeo.weights.storage import read_safetensors, write_safetensors

if TYPE_CHECKING:
    from typing_extensions import Self

FOLDER = Path(__file__).parent
# Name of the metadata entry that holds the arguments of the model's constructor.
SETTINGS = "settings"


def names() -> list[str]:
    """Return the names of the weights shipped with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.safetensors"))


def load(source: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors of a model and the arguments of its constructor.

    Args:
        source: One of :func:`names`, or the path of a ``.safetensors`` file.
    """
    path = FOLDER / f"{source}.safetensors" if source in names() else Path(source)
    if not path.is_file():
        expected = f"the path of a .safetensors file or one of {', '.join(names())}"
        raise FileNotFoundError(f"Expected {expected} (got '{source}')")
    tensors, settings = read_safetensors(path, SETTINGS)
    if not isinstance(settings, dict):
        raise ValueError(f"'{path}': Expected the settings of a model (got {settings!r})")
    return tensors, settings


def save(
    path: str | os.PathLike[str], tensors: Mapping[str, Tensor], settings: Mapping[str, Any]
) -> None:
    """Write a file for :func:`load`; a failed write leaves the previous file in place."""
    write_safetensors(path, tensors, {SETTINGS: dict(settings)})


class Pretrained(torch.nn.Module):
    """Base class that adds ``from_pretrained`` and ``save_pretrained`` to a model."""

    #: Short names of the shipped weights of this class, and the names of their files.
    pretrained: ClassVar[dict[str, str]] = {}
    # Attributes that hold the arguments of the constructor.
    _arguments: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def from_pretrained(cls, name: str | os.PathLike[str] | None = None) -> Self:
        """Return a trained model in evaluation mode.

        Args:
            name: A key of ``pretrained``, or a ``.safetensors`` file written by
                :meth:`save_pretrained`; by default the first key.
        """
        if name is None and not cls.pretrained:
            raise ValueError(
                f"{cls.__name__}: Expected the path of a .safetensors file (the package ships no "
                "weights of this model)"
            )
        if name is None:
            name = next(iter(cls.pretrained))
        tensors, settings = load(cls.pretrained.get(os.fspath(name), name))
        expected = f"'{name}': Expected the weights of a {cls.__name__}"
        unknown = set(settings) - set(inspect.signature(cls).parameters)
        if unknown:
            raise ValueError(f"{expected} (got a model with {', '.join(sorted(unknown))})")
        try:
            model = cls(**settings)
        except (TypeError, RuntimeError, ValueError) as error:
            raise ValueError(f"{expected} ({error})") from error
        if {k: v.shape for k, v in tensors.items()} != _shapes(model):
            raise ValueError(f"{expected} (got tensors of other names or shapes)")
        model.load_state_dict(tensors)
        return model.eval()

    def save_pretrained(self, path: str | os.PathLike[str]) -> None:
        """Write the weights and settings; a failed write leaves the previous file in place."""
        save(path, self.state_dict(), self.settings)

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of the constructor that gave this model."""
        return {name: getattr(self, name) for name in self._arguments}


def _shapes(model: torch.nn.Module) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in model.state_dict().items()}
