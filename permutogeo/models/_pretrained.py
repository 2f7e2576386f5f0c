"""Models with the weights that they were trained to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from permutogeo import weights

if TYPE_CHECKING:
    from typing_extensions import Self


class Pretrained(torch.nn.Module):
    """Base of the models that can be written with their settings, and be had by name."""

    #: Names that a model of this kind goes by, and those of its weights in the package.
    pretrained: ClassVar[dict[str, str]] = {}
    _arguments: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def from_pretrained(cls, name: str | os.PathLike[str] | None = None) -> Self:
        """A trained model, ready to predict.

        Args:
            name: One out of ``pretrained``, which come with the package, or a ``.safetensors``
                file that :meth:`save_pretrained` wrote; by default the first that there is.
        """
        if name is None and not cls.pretrained:
            raise ValueError(
                f"{cls.__name__}: Expected the path of a .safetensors file, since no weights of it "
                "come with the package"
            )
        if name is None:
            name = next(iter(cls.pretrained))
        tensors, settings = weights.load(cls.pretrained.get(os.fspath(name), name))
        try:
            model = cls(**settings)
            model.load_state_dict(tensors)
        except (TypeError, RuntimeError, ValueError) as error:
            raise ValueError(
                f"'{name}': Expected the weights of a {cls.__name__} ({error})"
            ) from error
        return model.eval()

    def save_pretrained(self, path: str | os.PathLike[str]) -> None:
        """Write the weights and settings as safetensors, whole or not at all."""
        weights.save(path, self.state_dict(), self.settings)

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that make a model of this size."""
        return {name: getattr(self, name) for name in self._arguments}
