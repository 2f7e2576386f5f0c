"""Trained weights that come with the package: safetensors, with the model's settings beside them.

>>> from permutogeo import weights
>>> "mesh_denoiser" in weights.names()
True
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from permutogeo.data._files import replacing

FOLDER = Path(__file__).parent
SETTINGS = "settings"


def names() -> list[str]:
    """The weights that there are."""
    return sorted(path.stem for path in FOLDER.glob("*.safetensors"))


def load(source: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and the settings of the model that they belong to.

    Args:
        source: A name out of :func:`names`, or the path of a ``.safetensors`` file.
    """
    path = FOLDER / f"{source}.safetensors" if source in names() else Path(source)
    if not path.is_file():
        expected = f"the path of a .safetensors file or one of {', '.join(names())}"
        raise FileNotFoundError(f"Expected {expected} (got '{source}')")
    try:
        with safe_open(path, framework="pt") as file:
            settings = json.loads((file.metadata() or {})[SETTINGS])
            return {key: file.get_tensor(key) for key in file.keys()}, settings  # noqa: SIM118
    except (SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise ValueError(
            f"'{path}': Expected safetensors with the settings of a model ({error!r})"
        ) from error


def save(
    path: str | os.PathLike[str], tensors: Mapping[str, Tensor], settings: Mapping[str, Any]
) -> None:
    """Write what :func:`load` reads, whole or not at all."""
    kept = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    content = to_bytes(kept, {SETTINGS: json.dumps(dict(settings))})
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(content)  # safetensors' own file would be for its owner alone
