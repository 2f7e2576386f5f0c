"""The bilateral solver on images: refinement along a guide, scribbled colors, sparse labels."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from permutogeo.image.arrays import (
    Image,
    check_bandwidths,
    locate_bad_pixels,
    pixel_positions,
    restore_layout,
    to_channels_last,
)
from permutogeo.solvers import bilateral_label_propagation, bilateral_solve

# ITU-R BT.601: luma and the two scaled color differences.
_TO_YCC = (
    (0.299, 0.587, 0.114),
    (-0.168736, -0.331264, 0.5),
    (0.5, -0.418688, -0.081312),
)


def bilateral_refine(
    image: Image,
    guide: Image,
    confidence: np.ndarray | Tensor | None = None,
    sigma_pos: float = 4.0,
    sigma_color: float | None = None,
    lam: float = 1.0,
    hard: bool = False,
) -> Image:
    """Refine an image, such as depth, along the edges of a guide of the same size by the fast
    bilateral solver. Unknown pixels (of confidence 0) are filled.

    Args:
        image: The image, with any number of channels; ignored where the confidence is 0.
        guide: The guide, of the same size.
        confidence: Weight of each pixel of the image, at least 0; by default 1.
        sigma_pos: Bandwidth in pixels.
        sigma_color: Bandwidth of the guide in its own units; by default 12 of 255.
        lam: Smoothness; see :class:`permutogeo.nn.BilateralSolver`.
        hard: Keep pixels of positive confidence exactly.

    Shapes:
        - image: arrays :math:`(H, W)` or :math:`(H, W, C)`, tensors :math:`(C, H, W)` or
          :math:`(B, C, H, W)`
        - guide: the same with its own number of channels
        - confidence: arrays :math:`(H, W)`, tensors :math:`(H, W)` or :math:`(B, H, W)`
        - output: like the image

    Example:

        >>> depth = np.random.default_rng(0).random((32, 48))
        >>> photo = np.zeros((32, 48, 3), np.uint8)
        >>> bilateral_refine(depth, photo, confidence=(depth > 0.5).astype(float)).shape
        (32, 48)
    """
    values, colors = to_channels_last("image", image), to_channels_last("guide", guide)
    _check_sizes("guide", colors.shape[:3], values.shape[:3])
    weight = None if confidence is None else _to_pixels("confidence", confidence, values)
    known = None if weight is None or not hard else weight > 0
    if hard and weight is None:
        known = torch.ones(values[..., 0].numel(), dtype=torch.bool, device=values.device)
    feature, batch = _points(colors, sigma_pos, _color_bandwidth(sigma_color, 12.0, guide))
    with locate_bad_pixels(guide=colors):
        out = bilateral_solve(values.flatten(0, 2), weight, feature, batch, lam, known)
    return restore_layout(out.view_as(values), image)


def colorize(
    image: Image,
    scribbles: Image,
    mask: np.ndarray | Tensor,
    sigma_pos: float = 4.0,
    sigma_color: float | None = None,
    lam: float = 0.1,
) -> Image:
    """Color a gray image from scribbles, after `"Colorization using Optimization"
    <https://doi.org/10.1145/1186562.1015780>`_: the bilateral solver spreads the hue and saturation
    of the scribbles along similar gray values; the brightness stays that of the image.

    Args:
        image: The gray image; of three channels, the brightness is used.
        scribbles: Colors, in the units of the image.
        mask: Where there is a scribble.
        sigma_pos: Bandwidth in pixels.
        sigma_color: Bandwidth of gray values in the units of the image; by default 6 of 255.
        lam: Smoothness; see :class:`permutogeo.nn.BilateralSolver`.

    Shapes:
        - image: arrays :math:`(H, W)` or :math:`(H, W, 3)`, tensors :math:`(1, H, W)`,
          :math:`(3, H, W)` or with :math:`B` before
        - scribbles: arrays :math:`(H, W, 3)`, tensors :math:`(3, H, W)` or :math:`(B, 3, H, W)`
        - mask: :math:`(H, W)` or :math:`(B, H, W)` bool
        - output: like the scribbles

    Example:

        >>> gray = np.zeros((32, 48), np.uint8)
        >>> gray[:, 24:] = 200
        >>> scribbles, mask = np.zeros((32, 48, 3), np.uint8), np.zeros((32, 48), bool)
        >>> mask[16, 30], scribbles[16, 30] = True, (255, 190, 150)
        >>> colorize(gray, scribbles, mask).shape
        (32, 48, 3)
    """
    gray, colors = to_channels_last("image", image), to_channels_last("scribbles", scribbles)
    _check_sizes("scribbles", colors.shape, (*gray.shape[:3], 3))
    if gray.shape[3] not in (1, 3):
        raise ValueError(f"Expected 'image' of 1 or 3 channels (got {gray.shape[3]})")
    matrix = colors.new_tensor(_TO_YCC)
    luma = gray if gray.shape[3] == 1 else gray @ matrix[:1].T.to(gray.dtype)
    weight = _to_pixels("mask", mask, colors)
    feature, batch = _points(luma, sigma_pos, _color_bandwidth(sigma_color, 6.0, image))
    chroma = (colors @ matrix[1:].T).flatten(0, 2)
    with locate_bad_pixels(image=gray):
        chroma = bilateral_solve(chroma, weight, feature, batch, lam)
    out = torch.cat([luma.flatten(0, 2).to(chroma.dtype), chroma], 1) @ matrix.inverse().T
    most = 255.0 if image.dtype in (torch.uint8, np.uint8) else 1.0
    return restore_layout(out.clamp(0, most).view_as(colors), scribbles)


def propagate_labels(
    image: Image,
    label: np.ndarray | Tensor,
    sigma_pos: float = 3.0,
    sigma_color: float | None = None,
    lam: float = 0.01,
    hard: bool = False,
    num_classes: int | None = None,
    balance: float = 0.25,
) -> np.ndarray | Tensor:
    """Propagate sparse labels to all pixels along the colors of an image.

    Args:
        image: The image.
        label: Label of each pixel, -1 for none.
        sigma_pos: Bandwidth in pixels.
        sigma_color: Bandwidth of colors in the units of the image; by default 50 of 255.
        lam: Smoothness; see :class:`permutogeo.nn.BilateralSolver`.
        hard: Keep the given labels exactly.
        num_classes: Number of labels; by default the largest plus 1.
        balance: Advantage of rare labels, from 0 to 1; see
            :func:`permutogeo.solvers.bilateral_label_propagation`.

    Shapes:
        - image: arrays :math:`(H, W)` or :math:`(H, W, C)`, tensors :math:`(C, H, W)` or
          :math:`(B, C, H, W)`
        - label: :math:`(H, W)` or :math:`(B, H, W)`, any integers
        - output: like the labels, int64

    Example:

        >>> image, label = np.zeros((32, 48, 3), np.uint8), np.full((32, 48), -1)
        >>> image[:, 24:] = 255
        >>> label[3, 5], label[8, 40] = 0, 1
        >>> bool((propagate_labels(image, label)[:, 24:] == 1).all())
        True
    """
    colors = to_channels_last("image", image)
    given = torch.as_tensor(label)
    if given.dtype.is_floating_point or given.dtype == torch.bool:
        raise TypeError(f"Expected 'label' of integers (got {given.dtype})")
    rows = _to_pixels("label", given, colors).long()
    feature, batch = _points(colors, sigma_pos, _color_bandwidth(sigma_color, 50.0, image))
    names = None
    if num_classes is None and len(rows) and rows.min() >= -1 and rows.max() >= 0:
        # Labels may be large: only those that occur take memory.
        names, rows = rows.unique(return_inverse=True)
        rows, names = rows - (names[0] < 0).long(), names[names >= 0]
    with locate_bad_pixels(image=colors):
        found = bilateral_label_propagation(rows, feature, batch, num_classes, lam, hard, balance)
    best = found.argmax(1)
    out = (best if names is None else names[best]).view(given.shape)
    return out.cpu().numpy() if isinstance(label, np.ndarray) else out


def _points(guide: Tensor, sigma_pos: float, sigma_color: float) -> tuple[Tensor, Tensor | None]:
    """Return the features of all pixels of ``[B, H, W, G]``, and their image if several."""
    sigmas = check_bandwidths(sigma_pos, sigma_color)
    images, height, width, _ = guide.shape
    pos = pixel_positions(height, width, guide).expand(images, -1, -1, -1)
    feature = torch.cat([pos / sigmas[0], guide / sigmas[1]], -1).flatten(0, 2)
    if images == 1:
        return feature, None
    return feature, torch.arange(images, device=guide.device).repeat_interleave(height * width)


def _color_bandwidth(sigma: float | None, levels: float, image: Image) -> float:
    if sigma is not None:
        return sigma
    return levels if image.dtype in (torch.uint8, np.uint8) else levels / 255


def _check_sizes(name: str, got: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if tuple(got) != tuple(expected):
        raise ValueError(
            f"Expected '{name}' for {expected[0]} images of {expected[1]} x {expected[2]} pixels"
            f"{f' with {expected[3]} channels' if len(expected) > 3 else ''} (got {list(got)})"
        )


def _to_pixels(name: str, x: np.ndarray | Tensor, like: Tensor) -> Tensor:
    """Return one number for each pixel of ``like [B, H, W, C]``, ``[B H W]``."""
    values = torch.as_tensor(x, device=like.device)
    shape = tuple(like.shape[:3])
    if tuple(values.shape) not in (shape, shape[1:]) or (values.dim() == 2 and shape[0] > 1):
        raise ValueError(
            f"Expected '{name}' of shape {list(shape[1:] if shape[0] == 1 else shape)} "
            f"(got {list(values.shape)})"
        )
    values = values.to(like.dtype) if values.dtype == torch.bool or name != "label" else values
    return values.reshape(-1)
