"""Models with the weights that they were trained to."""

from __future__ import annotations

import os
from typing import TypeVar

import torch

from permutogeo import weights

Model = TypeVar("Model", bound=torch.nn.Module)


def load_model(kind: type[Model], name: str | os.PathLike[str]) -> Model:
    """A trained model, ready to predict.

    Args:
        kind: Its class, which is called with the settings that stand beside the weights.
        name: A name out of :func:`permutogeo.weights.names`, or a ``.safetensors`` file.
    """
    tensors, settings = weights.load(name)
    try:
        model = kind(**settings)
        model.load_state_dict(tensors)
    except (TypeError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"'{name}': Expected the weights of a {kind.__name__} ({error})"
        ) from error
    return model.eval()
