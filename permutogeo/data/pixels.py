"""Images from files, PIL, NumPy and torch as float32 tensors ``[H, W, C]``, and back."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from permutogeo.data.files import file_error, read_file, replacing, suffix_of
from permutogeo.data.formats.npy import load_array
from permutogeo.typing import Array

# Formats that Pillow may open: raster images only, none that starts another program.
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
READABLE = (
    *(".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".npy"),
)
WRITABLE = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".npy")
_OPAQUE = (".jpg", ".jpeg", ".bmp")
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


def _pil_to_array(image: Any) -> Array:
    if image.mode == "P":
        image = image.convert("RGBA" if "transparency" in image.info else "RGB")
    elif image.mode in ("CMYK", "YCbCr", "HSV", "RGBX", "RGBa", "La", "PA"):
        image = image.convert("RGBA" if image.mode in ("RGBa", "La", "PA") else "RGB")
    array = np.asarray(image)
    if image.mode == "I" and array.size and array.min() >= 0 and array.max() < 2**16:
        return array.astype(np.uint16)  # older versions of Pillow hold 16-bit files so
    return array


@contextmanager
def _open_picture(path: Path) -> Iterator[Any]:
    """Open a file of one of the formats, with a bounded number of pixels."""
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # refused below
        opened = Image.open(path, formats=FORMATS)
    with opened as image:
        limit = Image.MAX_IMAGE_PIXELS
        if limit is not None and image.width * image.height > limit:
            size = f"{image.width} x {image.height}"
            expected = f"at most {limit:,} pixels, PIL.Image.MAX_IMAGE_PIXELS"
            raise file_error(path, f"Expected {expected} (got {size})")
        image.load()
        yield image


def _read_file(path: Path) -> Array:
    if path.suffix.lower() == ".npy":
        return load_array(path)
    from PIL import ImageOps

    with _open_picture(path) as image:
        # Apply the orientation of the camera: what we write has no such tag.
        return _pil_to_array(ImageOps.exif_transpose(image))


def _read_indices(path: Path) -> Array:
    if path.suffix.lower() == ".npy":
        return load_array(path)
    with _open_picture(path) as image:
        if image.mode not in ("P", "L"):
            expected = "an image of indices: 8 bits, gray or with a palette"
            raise file_error(path, f"Expected {expected} (got mode {image.mode})")
        return np.asarray(image)


def load_indices(path: Path, axes: int = 2) -> Array:
    """Return the integers of a gray or palette image, or of an .npy, as int64.

    Args:
        axes: Number of axes of the array.
    """
    suffix_of(path, READABLE)
    array = read_file(path, _read_indices, "an array of integers")
    if array.dtype.kind not in "iu" or array.ndim != axes:
        got = f"{array.dtype} of shape {list(array.shape)}"
        raise file_error(path, f"Expected an array of integers with {axes} axes (got {got})")
    return array.astype(np.int64)


def _to_float(values: Tensor, origin: str) -> Tensor:
    if values.dtype in (torch.uint8, torch.uint16):
        return values.float().div_(255.0 if values.dtype == torch.uint8 else 65535.0)
    if values.dtype == torch.bool or values.is_floating_point():
        return values.detach().to(torch.float32, copy=True)
    expected = "an image of uint8, uint16, bool or float"
    raise ValueError(f"{origin}: Expected {expected} (got {values.dtype})")


def load_pixels(image: Any) -> Tensor:
    """Return an image as a new float32 tensor ``[H, W, C]``; integers are scaled to [0, 1].

    Args:
        image: A path, a PIL image, an array ``[H, W(, C)]`` or a tensor ``[(C, )H, W]`` of uint8,
            uint16, bool or floating type.
    """
    origin = "from_image"
    channels_first = isinstance(image, Tensor)
    if isinstance(image, (str, os.PathLike)):
        path = Path(image)
        origin = f"'{path}'"
        suffix_of(path, READABLE)
        image = read_file(path, _read_file, "an image")
    elif type(image).__module__.startswith("PIL."):
        image = _pil_to_array(image)
    if isinstance(image, np.ndarray) and image.dtype.kind in "fub":
        image = torch.from_numpy(np.array(image, image.dtype.newbyteorder("="), order="C"))
    if not isinstance(image, Tensor):
        got = f"{type(image).__module__}.{type(image).__name__}"
        if isinstance(image, np.ndarray):
            got = f"an array of {image.dtype}"
        expected = "a path, a PIL image, an array [H, W(, C)] or a tensor [(C, )H, W]"
        raise TypeError(
            f"{origin}: Expected {expected} of uint8, uint16, bool or float (got {got})"
        )
    if image.dim() not in (2, 3) or image.numel() == 0:
        expected = "[C, H, W] or [H, W]" if channels_first else "[H, W] or [H, W, C]"
        raise ValueError(f"{origin}: Expected one image {expected} (got {list(image.shape)})")
    if image.dim() == 2:
        image = image.unsqueeze(-1)
    elif channels_first:
        image = image.permute(1, 2, 0)
    pixels = _to_float(image, origin).contiguous()
    if image.is_floating_point() and not torch.isfinite(pixels).all():
        row, column = (~torch.isfinite(pixels).all(-1)).nonzero()[0].tolist()
        got = f"NaN or infinity at row {row}, column {column}"
        raise ValueError(f"{origin}: Expected finite pixels ({got})")
    return pixels


def to_pil(pixels: Array, origin: str = "to_image") -> Any:
    """Return pixels ``[H, W, C]``, clipped to [0, 1], as an 8-bit PIL image."""
    from PIL import Image

    channels = pixels.shape[2]
    if channels not in _MODES:
        raise ValueError(f"{origin}: Expected 1 to 4 channels (got {channels})")
    if not np.isfinite(pixels).all():
        raise ValueError(f"{origin}: Expected finite values (got NaN or infinity)")
    values = np.rint(np.clip(pixels, 0.0, 1.0) * 255.0).astype(np.uint8)
    return Image.fromarray(values[:, :, 0] if channels == 1 else values)


def save_pixels(pixels: Array, path: Path) -> None:
    """Write pixels ``[H, W, C]`` atomically; ``.npy`` keeps float32, other formats have 8 bits."""
    suffix = suffix_of(path, WRITABLE)
    if suffix in _OPAQUE and pixels.shape[2] in (2, 4):
        expected = f"1 or 3 channels for {suffix}"
        raise file_error(path, f"Expected {expected} (got {pixels.shape[2]}, with alpha)")
    image = None if suffix == ".npy" else to_pil(pixels, f"'{path}'")
    with replacing(path) as temporary:
        if image is None:
            np.save(temporary, pixels, allow_pickle=False)
        else:
            image.save(temporary, **({"quality": 95} if suffix in (".jpg", ".jpeg") else {}))
