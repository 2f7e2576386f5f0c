"""Conversion between images and points in :class:`~torch_geometric.data.Data`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from permutogeo.data.fields import attribute_names
from permutogeo.data.pixels import load_pixels, save_pixels, to_pil


def _grid(height: int, width: int) -> Tensor:
    """Return the pixel centers (x, y), row by row: [H * W, 2]."""
    rows, columns = (torch.arange(size, dtype=torch.float32) for size in (height, width))
    y, x = torch.meshgrid(rows, columns, indexing="ij")
    return torch.stack([x, y], dim=-1).reshape(-1, 2)


def _masked(pixels: Tensor, mask: Any) -> tuple[Tensor, Tensor]:
    mask = torch.as_tensor(np.array(mask) if isinstance(mask, np.ndarray) else mask).cpu()
    height, width, channels = pixels.shape
    if mask.dtype != torch.bool or mask.shape != (height, width):
        got = f"{list(mask.shape)} {mask.dtype}"
        expected = f"'mask' of shape [{height}, {width}] and type bool"
        raise ValueError(f"from_image: Expected {expected} (got {got})")
    if not mask.any():
        raise ValueError("from_image: Expected a 'mask' with at least one pixel (got none)")
    chosen = mask.reshape(-1)
    return pixels.reshape(-1, channels)[chosen], _grid(height, width)[chosen]


def interpolate(pixels: Tensor, pos: Tensor) -> Tensor:
    """Interpolate ``pixels [H, W, C]`` bilinearly at ``pos [N, 2]``, (x, y) in pixels."""
    height, width, _ = pixels.shape
    limit = torch.tensor([width - 2, height - 2], device=pos.device).clamp(min=0)
    low = torch.minimum(pos.floor().long(), limit)
    high_x, high_y = (low[:, 0] + 1).clamp(max=width - 1), (low[:, 1] + 1).clamp(max=height - 1)
    wx, wy = (pos - low).to(pixels.dtype).split(1, dim=1)
    top = torch.lerp(pixels[low[:, 1], low[:, 0]], pixels[low[:, 1], high_x], wx)
    bottom = torch.lerp(pixels[high_y, low[:, 0]], pixels[high_y, high_x], wx)
    return torch.lerp(top, bottom, wy)


def _sampled(
    pixels: Tensor, fraction: float, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """Draw uniform points between the outermost pixel centers, with bilinear values."""
    if not 0.0 < fraction <= 1.0:
        raise ValueError(f"from_image: Expected 'fraction' in (0, 1] (got {fraction})")
    height, width, _ = pixels.shape
    count = max(1, round(fraction * height * width))
    size = torch.tensor([width - 1.0, height - 1.0])
    pos = torch.rand(count, 2, generator=generator) * size
    return interpolate(pixels, pos), pos


def _superpixels(pixels: Tensor, count: int, compactness: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return SLIC segments: mean values, mean positions, and the segment of each pixel."""
    if count < 1:
        raise ValueError(f"from_image: Expected 'superpixels' >= 1 (got {count})")
    try:
        from skimage.segmentation import slic
    except ImportError as error:
        raise ImportError("Superpixels need scikit-image: 'pip install scikit-image'") from error
    height, width, channels = pixels.shape
    guide = pixels.numpy().clip(0.0, 1.0) if channels <= 4 else pixels.numpy()
    if channels <= 4:  # color without alpha; gray as color, so that compactness has the same scale
        guide = guide[..., :3] if channels >= 3 else guide[..., :1].repeat(3, axis=-1)
    labels = slic(
        guide,
        n_segments=count,
        compactness=compactness,
        channel_axis=-1,
        convert2lab=channels <= 4,
        start_label=0,
    )
    _, index = np.unique(labels, return_inverse=True)  # consecutive labels
    segment = torch.from_numpy(index.reshape(-1).astype(np.int64))
    size = segment.bincount().unsqueeze(1)

    def mean(values: Tensor) -> Tensor:
        # In float64: a segment may have many pixels.
        total = torch.zeros(len(size), values.size(1), dtype=torch.float64)
        return (total.index_add_(0, segment, values.double()) / size).float()

    return mean(pixels.reshape(-1, channels)), mean(_grid(height, width)), segment


def from_image(
    image: Any,
    *,
    mask: np.ndarray | Tensor | None = None,
    fraction: float | None = None,
    superpixels: int | None = None,
    compactness: float = 10.0,
    generator: torch.Generator | None = None,
) -> Data:
    r"""Turns an image into a sparse feature set in :class:`~torch_geometric.data.Data`.

    All pixels become points, or those of a ``mask``, or a random ``fraction`` at continuous
    positions with bilinearly interpolated values (the subsampled digits of `"Learning Sparse High
    Dimensional Filters" <https://arxiv.org/abs/1503.04949>`_), or ``superpixels``.

    Args:
        image: A path, a PIL image, an array :math:`(H, W)` or :math:`(H, W, C)`, or a tensor
            :math:`(C, H, W)` or :math:`(H, W)`; uint8 and uint16 are scaled to [0, 1], floats
            stay as they are. It is never changed, nor is its memory shared.
        mask: Pixels to keep, :math:`(H, W)` of type bool.
        fraction: Number of points to draw at random, relative to the number of pixels, in (0, 1].
        superpixels: Approximate number of segments (SLIC); each is a point with the mean color and
            the mean position of its pixels.
        compactness: Compactness of SLIC: large values give square superpixels.
        generator: Random number generator for ``fraction``.

    Returns:
        ``x [N, C]``, ``pos [N, 2]`` as (x, y) in pixels with centers at integers, ``height`` and
        ``width``; with ``superpixels`` also ``superpixel_index [H * W]``, the point of each pixel.

    Example:
        >>> import numpy as np
        >>> from permutogeo.data import from_image
        >>> from_image(np.zeros((4, 6, 3), np.uint8))
        Data(x=[24, 3], pos=[24, 2], height=4, width=6)
    """
    chosen = {"mask": mask, "fraction": fraction, "superpixels": superpixels}
    given = [name for name, value in chosen.items() if value is not None]
    if len(given) > 1:
        names = " and ".join(f"'{name}'" for name in given)
        raise ValueError(f"from_image: Expected one of mask, fraction, superpixels (got {names})")
    pixels = load_pixels(image).cpu()
    height, width, channels = pixels.shape
    data = Data()
    if mask is not None:
        data.x, data.pos = _masked(pixels, mask)
    elif fraction is not None:
        data.x, data.pos = _sampled(pixels, fraction, generator)
    elif superpixels is not None:
        data.x, data.pos, data.superpixel_index = _superpixels(pixels, superpixels, compactness)
    else:
        data.x, data.pos = pixels.reshape(-1, channels), _grid(height, width)
    # Plain integers become one tensor [B] in a batch.
    data.height, data.width = height, width
    return data


def _size(data: Data, name: str, given: int | None) -> int:
    value = given if given is not None else data.get(name)
    if value is None:
        expected = f"'{name}' in data or as an argument"
        raise ValueError(f"to_image: Expected {expected} (data has {attribute_names(data)})")
    size = torch.as_tensor(value)
    if size.numel() != 1 or int(size) < 1:
        raise ValueError(f"to_image: Expected one '{name}' >= 1 (got {value}); unbatch first")
    return int(size)


def _scatter(values: Tensor, pos: Tensor, height: int, width: int, fill: float | str) -> Tensor:
    """Average the values in each pixel [H * W, C]; differentiable in the values."""
    size = torch.tensor([width, height], device=pos.device)
    cell = (pos + 0.5).floor().long()
    outside = ((pos < -0.5) | (pos > size - 0.5) | ~torch.isfinite(pos)).any(dim=1)
    if outside.any():
        row = int(outside.nonzero()[0])
        got = f"{pos[row].tolist()} in row {row}"
        raise ValueError(f"to_image: Expected 'pos' within {width} x {height} pixels (got {got})")
    cell = torch.minimum(cell, size - 1).clamp(min=0)
    index = cell[:, 1] * width + cell[:, 0]
    total = values.new_zeros(height * width, values.size(1)).index_add(0, index, values)
    count = torch.bincount(index, minlength=height * width)
    out = total / count.clamp(min=1).unsqueeze(1).to(values.dtype)
    missing = count == 0
    if not missing.any():
        return out
    if fill == "nearest":
        from scipy.spatial import cKDTree

        holes = _grid(height, width)[missing.cpu()]
        _, nearest = cKDTree(pos.detach().cpu().numpy()).query(holes.numpy())
        source = values[torch.from_numpy(nearest).to(values.device)]
        return out.index_copy(0, missing.nonzero().squeeze(1), source)
    return torch.where(missing.unsqueeze(1), out.new_tensor(float(fill)), out)


def to_image(
    data: Data,
    path: str | os.PathLike[str] | None = None,
    *,
    attr: str = "x",
    height: int | None = None,
    width: int | None = None,
    fill: float | str = 0.0,
    kind: str = "numpy",
) -> Any:
    r"""Scatters points back into an image.

    Points in one pixel are averaged; a superpixel fills all of its pixels.

    Args:
        data: Points with ``pos`` in pixels, as :func:`from_image` makes them. It is never changed.
        path: Output file, written atomically: 8 bits (``.png``, ``.jpg``, …) with values clipped
            to [0, 1], or ``.npy``. If ``None``, an object is returned.
        attr: The attribute that holds the values, :math:`(N, C)` or :math:`(N)`.
        height: Image height; by default that of ``data``.
        width: Image width; by default that of ``data``.
        fill: The value of pixels without a point, or ``"nearest"``.
        kind: Type of the returned object: ``"numpy"`` :math:`(H, W, C)`, ``"tensor"``
            :math:`(C, H, W)` (differentiable in the values), or ``"pil"``.

    Example:
        >>> import numpy as np
        >>> from permutogeo.data import from_image, to_image
        >>> image = np.random.default_rng(0).random((4, 6, 3), np.float32)
        >>> bool((to_image(from_image(image)) == image).all())
        True
    """
    if kind not in ("numpy", "tensor", "pil"):
        raise ValueError(f"to_image: Expected 'kind' in numpy, tensor, pil (got '{kind}')")
    if isinstance(fill, str) and fill != "nearest":
        raise ValueError(f"to_image: Expected 'fill' as a number or 'nearest' (got '{fill}')")
    for name in (attr, "pos"):
        if not isinstance(data.get(name), Tensor):
            raise ValueError(
                f"to_image: Expected '{name}' in data (it has {attribute_names(data)})"
            )
    rows, columns = _size(data, "height", height), _size(data, "width", width)
    values, pos = data[attr], data["pos"]
    values = values.unsqueeze(1) if values.dim() == 1 else values
    values = values if values.is_floating_point() else values.float()
    if pos.dim() != 2 or pos.size(1) != 2 or values.dim() != 2 or len(values) != len(pos):
        got = f"{list(data[attr].shape)} and {list(pos.shape)}"
        expected = f"'{attr}' of shape [N, C] and 'pos' of shape [N, 2]"
        raise ValueError(f"to_image: Expected {expected} (got {got})")
    index = data.get("superpixel_index")
    if index is not None and len(index) == rows * columns:
        pixels = values[index]
    else:
        pixels = _scatter(values, pos, rows, columns, fill)
    pixels = pixels.reshape(rows, columns, -1)
    if path is None and kind == "tensor":
        return pixels.permute(2, 0, 1)
    array = pixels.detach().cpu().float().numpy()
    if path is None:
        return to_pil(array) if kind == "pil" else array
    save_pixels(array, Path(path))
    return Path(path)
