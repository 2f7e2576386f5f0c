"""Segmentation of images by a dense CRF."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from permutogeo.image.arrays import Image, locate_bad_pixels, pixel_positions, to_channels_last

KINDS = ("logits", "probabilities", "energies")
# Default bandwidth of colors, of 255.
SIGMA_COLOR = 8.0


def segment(
    image: Image,
    unary: Image,
    *,
    kind: str = "logits",
    sigma_pos: float = 60.0,
    sigma_color: float | None = None,
    weight: float = 5.0,
    sigma_near: float = 3.0,
    weight_near: float = 1.0,
    num_steps: int = 5,
) -> Image:
    r"""Label the pixels of an image by a dense CRF, given the scores of a network.

    The CRF has a bilateral kernel over position and color and a spatial kernel over position, as in
    the `"Efficient Inference in Fully Connected CRFs with Gaussian Edge Potentials"
    <https://arxiv.org/abs/1210.5644>`_ paper. For other kernels see
    :class:`permutogeo.nn.DenseCRF`.

    Args:
        image: The image.
        unary: Score of each label at each pixel; interpolated if smaller than the image.
        kind: ``"logits"``, ``"probabilities"`` or ``"energies"`` (negative logits, as in
            pydensecrf).
        sigma_pos: Bandwidth of the bilateral kernel in pixels.
        sigma_color: Bandwidth of its colors in the units of the image; 8 of 255 by default.
        weight: Weight of the bilateral kernel.
        sigma_near: Bandwidth of the spatial kernel in pixels.
        weight_near: Weight of the spatial kernel.
        num_steps: Number of mean-field steps.

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
    # Imported here, since the filters of images do not need the layers and PyG.
    from permutogeo.nn import DenseCRF, GaussianKernel

    colors = to_channels_last("image", image)
    scores = _check_unary(unary, kind, colors)
    logits = _to_logits(scores, kind, *colors.shape[1:3])
    images, height, width, channels = colors.shape
    if sigma_color is None:
        uint8 = image.dtype in (torch.uint8, np.uint8)
        sigma_color = SIGMA_COLOR if uint8 else SIGMA_COLOR / 255
    sigma = [sigma_pos] * 2 + [sigma_color] * channels
    kernels = [
        GaussianKernel(2 + channels, sigma, weight),
        GaussianKernel(2, sigma_near, weight_near),
    ]
    pos = pixel_positions(height, width, colors).expand(images, -1, -1, -1).flatten(0, 2)
    both = torch.cat([pos, colors.flatten(0, 2)], 1)
    batch = torch.arange(images, device=colors.device).repeat_interleave(height * width)
    crf = DenseCRF(logits.shape[1], kernels, num_steps=num_steps).to(logits.device)
    with locate_bad_pixels(image=colors, unary=scores):
        labels = crf.labels(logits, [both, pos], batch if images > 1 else None)
    single = isinstance(image, np.ndarray) or image.dim() == 3
    labels = labels.view((height, width) if single else (images, height, width))
    return labels.cpu().numpy() if isinstance(image, np.ndarray) else labels


def _check_unary(unary: Image, kind: str, colors: Tensor) -> Tensor:
    """Return the scores as floats ``[B, h, w, L]``."""
    if kind not in KINDS:
        raise ValueError(f"Expected 'kind' in {', '.join(KINDS)} (got {kind!r})")
    if isinstance(unary, np.ndarray) and unary.ndim != 3:
        raise ValueError(f"Expected 'unary' of shape [H, W, L] (got {list(unary.shape)})")
    scores = to_channels_last("unary", unary)
    if len(scores) != len(colors) or scores.device != colors.device:
        raise ValueError(
            f"Expected 'unary' for {len(colors)} images on {colors.device} "
            f"(got {len(scores)} on {scores.device})"
        )
    return scores


def _to_logits(scores: Tensor, kind: str, height: int, width: int) -> Tensor:
    """Return the logits of all pixels ``[N, L]``, at the size of the image."""
    if kind == "energies":
        scores = -scores
    if scores.shape[1:3] != (height, width):
        scores = _enlarge(scores, height, width)
    if kind == "probabilities":
        if bool((scores < 0).any()):
            raise ValueError("Expected probabilities of at least 0 (got a negative one)")
        scores = scores.clamp_min(1e-8).log()
    return scores.to(torch.float32).flatten(0, 2)


def _enlarge(scores: Tensor, height: int, width: int) -> Tensor:
    """Interpolate scores ``[B, h, w, L]`` of about the aspect ratio of the image."""
    rows, columns = scores.shape[1:3]
    if rows * columns == 0 or not 0.8 < (rows * width) / (columns * height) < 1.25:
        raise ValueError(
            f"Expected 'unary' of the image's {height} x {width} pixels, or smaller in the same "
            f"proportion (got {rows} x {columns} with {scores.shape[3]} labels); labels come last "
            "in arrays"
        )
    first = scores.movedim(-1, 1)
    return functional.interpolate(first, (height, width), mode="bilinear").movedim(1, -1)
