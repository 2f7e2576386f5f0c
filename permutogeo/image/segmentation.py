"""Labels for the pixels of an image, from uncertain ones."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from permutogeo.image._arrays import channels_last, check_finite, positions

KINDS = ("logits", "probabilities", "energies")
# Levels of 255 within which colors are taken for the same.
SIGMA_COLOR = 8.0


def segment(
    image: np.ndarray | Tensor,
    unary: np.ndarray | Tensor,
    *,
    kind: str = "logits",
    sigma_pos: float = 60.0,
    sigma_color: float | None = None,
    weight: float = 5.0,
    sigma_near: float = 3.0,
    weight_near: float = 1.0,
    num_steps: int = 5,
) -> np.ndarray | Tensor:
    r"""Label the pixels of an image by a dense CRF, from what a network says of each.

    Two kernels: pixels that are near in position and color, and pixels that are near in position
    alone, want the same label; see :class:`permutogeo.nn.DenseCRF` for more.

    Args:
        image: The image.
        unary: What is known of each label at each pixel. Where it is smaller than the image, it is
            interpolated.
        kind: ``"logits"``, ``"probabilities"`` or ``"energies"`` (minus logits, as pydensecrf has
            them).
        sigma_pos: Bandwidth of the first kernel in pixels.
        sigma_color: Its bandwidth in the image's own units; 8 of 255 if not given.
        weight: Its weight.
        sigma_near: Bandwidth of the second kernel in pixels.
        weight_near: Its weight.
        num_steps: Steps of mean field.

    Shapes:
        - image: arrays :math:`(H, W, C)`, tensors :math:`(C, H, W)` or :math:`(B, C, H, W)`
        - unary: arrays :math:`(H, W, L)`, tensors :math:`(L, H, W)` or :math:`(B, L, H, W)`
        - output: :math:`(H, W)` or :math:`(B, H, W)` int64

    Example:

        >>> image = np.zeros((32, 48, 3), np.uint8)
        >>> image[:, 24:] = 255
        >>> unary = np.random.default_rng(0).normal(size=(32, 48, 2))
        >>> unary[:, 24:, 1] += 1
        >>> bool((segment(image, unary)[:, 24:] == 1).all())
        True
    """
    # Only here: the other filters of images need no layers.
    from permutogeo.nn import DenseCRF, GaussianKernel

    colors, _ = channels_last("image", image)
    check_finite("image", colors)
    logits = _logits(unary, kind, colors)
    images, height, width, channels = colors.shape
    if sigma_color is None:
        uint8 = image.dtype in (torch.uint8, np.uint8)
        sigma_color = SIGMA_COLOR if uint8 else SIGMA_COLOR / 255
    sigma = [sigma_pos] * 2 + [sigma_color] * channels
    kernels = [
        GaussianKernel(2 + channels, sigma, weight),
        GaussianKernel(2, sigma_near, weight_near),
    ]
    pos = positions(height, width, colors).expand(images, -1, -1, -1).flatten(0, 2)
    both = torch.cat([pos, colors.flatten(0, 2)], 1)
    batch = torch.arange(images, device=colors.device).repeat_interleave(height * width)
    crf = DenseCRF(logits.shape[1], kernels, num_steps=num_steps)
    labels = crf.labels(logits, [both, pos], batch if images > 1 else None)
    shape = (height, width) if _is_single(image) else (images, height, width)
    labels = labels.view(shape)
    return labels.cpu().numpy() if isinstance(image, np.ndarray) else labels


def _logits(unary: np.ndarray | Tensor, kind: str, colors: Tensor) -> Tensor:
    """Logits of all pixels ``[N, L]``, at the size of the image."""
    if kind not in KINDS:
        raise ValueError(f"Expected 'kind' in {', '.join(KINDS)} (got {kind!r})")
    if isinstance(unary, np.ndarray) and unary.ndim != 3:
        raise ValueError(f"Expected 'unary' of shape [H, W, L] (got {list(unary.shape)})")
    values, _ = channels_last("unary", unary)
    check_finite("unary", values)
    images, height, width, _ = colors.shape
    if len(values) != images or values.device != colors.device:
        raise ValueError(
            f"Expected 'unary' for {images} images on {colors.device} "
            f"(got {len(values)} on {values.device})"
        )
    if kind == "energies":
        values = -values
    if values.shape[1:3] != (height, width):
        values = _enlarge(values, height, width)
    if kind == "probabilities":
        if bool((values < 0).any()):
            raise ValueError("Expected probabilities of at least 0 (got a negative one)")
        values = values.clamp_min(1e-8).log()
    return values.to(torch.float32).flatten(0, 2)


def _enlarge(values: Tensor, height: int, width: int) -> Tensor:
    """Bilinear interpolation, of something with about the shape of the image."""
    rows, columns = values.shape[1:3]
    if rows * columns == 0 or not 0.8 < (rows * width) / (columns * height) < 1.25:
        raise ValueError(
            f"Expected 'unary' of the image's {height} x {width} pixels, or smaller in the same "
            f"proportion (got {rows} x {columns} with {values.shape[3]} labels); labels come last "
            "in arrays"
        )
    first = values.movedim(-1, 1)
    return functional.interpolate(first, (height, width), mode="bilinear").movedim(1, -1)


def _is_single(image: np.ndarray | Tensor) -> bool:
    return isinstance(image, np.ndarray) or image.dim() == 3
