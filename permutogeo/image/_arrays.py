"""Images as floats, channels last, and back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor


def positions(height: int, width: int, like: Tensor) -> Tensor:
    """Pixel centres ``(x, y)``, ``[H, W, 2]``."""
    y = torch.arange(height, dtype=like.dtype, device=like.device)
    x = torch.arange(width, dtype=like.dtype, device=like.device)
    return torch.stack(torch.meshgrid(x, y, indexing="xy"), dim=-1)


def channels_last(
    name: str, image: np.ndarray | Tensor
) -> tuple[Tensor, Callable[[Tensor], np.ndarray | Tensor]]:
    """The image as floats ``[B, H, W, C]``, and the way back to its own kind, shape and type."""
    if isinstance(image, np.ndarray):
        if image.ndim not in (2, 3):
            raise ValueError(
                f"Expected '{name}' of shape [H, W] or [H, W, C] (got {list(image.shape)})"
            )
        # Torch wants memory that may be written to, and warns of other arrays.
        tensor = torch.from_numpy(np.require(image, requirements=["C", "W"]))
        channels = 1 if image.ndim == 2 else image.shape[2]
        working = _to_float(name, tensor).reshape(1, *image.shape[:2], channels)
        return working, lambda out: _from_float(out, tensor.dtype).view(image.shape).numpy()
    if isinstance(image, Tensor):
        if image.dim() not in (3, 4):
            raise ValueError(
                f"Expected '{name}' of shape [C, H, W] or [B, C, H, W] (got {list(image.shape)})"
            )
        working = _to_float(name, image).movedim(-3, -1)
        working = working if image.dim() == 4 else working.unsqueeze(0)
        return (
            working,
            lambda out: _from_float(out, image.dtype).movedim(-1, -3).reshape(image.shape),
        )
    raise TypeError(f"Expected '{name}' to be an array or a tensor (got {type(image).__name__})")


def check_finite(name: str, image: Tensor) -> None:
    if not bool(torch.isfinite(image).all()):
        index = (~torch.isfinite(image)).nonzero()[0].tolist()
        raise ValueError(
            f"Expected finite '{name}' (got {image[tuple(index)].item()} in image {index[0]}, "
            f"row {index[1]}, column {index[2]}, channel {index[3]})"
        )


def _to_float(name: str, image: Tensor) -> Tensor:
    if image.dtype == torch.uint8:
        return image.float()
    if not image.is_floating_point():
        raise TypeError(f"Expected '{name}' of type uint8 or float (got {image.dtype})")
    return image if image.dtype == torch.float64 else image.float()


def _from_float(image: Tensor, dtype: torch.dtype) -> Tensor:
    return image.round().clamp(0, 255).to(dtype) if dtype == torch.uint8 else image.to(dtype)
