"""Image files as the commands read and write them: floats in [0, 1], 16 bits where given so."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

# Formats that hold one channel of 16 bits.
DEEP_SUFFIXES = (".png", ".tif", ".tiff")
# Formats without an alpha channel.
OPAQUE_SUFFIXES = (".jpg", ".jpeg", ".bmp")


def read_image(path: Path) -> "np.ndarray":
    """Return the pixels ``[H, W, C]``; floats of an .npy stay in their own units."""
    from permutogeo.data.pixels import load_pixels

    return load_pixels(path).numpy()


def read_rgb(path: Path) -> "np.ndarray":
    """Return the pixels ``[H, W, 3]`` as uint8; gray becomes RGB, alpha is dropped."""
    import numpy as np

    pixels = without_alpha(path, read_image(path))
    if pixels.shape[2] not in (1, 3):
        raise ValueError(f"'{path}': Expected 1 or 3 channels (got {pixels.shape[2]})")
    pixels = np.broadcast_to(pixels, (*pixels.shape[:2], 3))
    return np.rint(pixels.clip(0, 1) * 255).astype(np.uint8)


def compute_on(device: str, function: Callable[..., Any], *arrays: "np.ndarray") -> Any:
    """Call a function of images on a device; arrays are ``[H, W, C]`` or ``[H, W]`` throughout."""
    if device == "cpu":
        return function(*arrays)
    import torch

    result = function(*(torch.from_numpy(x).permute(2, 0, 1).to(device) for x in arrays)).cpu()
    return (result.permute(1, 2, 0) if result.dim() == 3 else result).numpy()


def without_alpha(path: Path, pixels: "np.ndarray") -> "np.ndarray":
    """Return the gray or color channels; all channels of an .npy."""
    has_alpha = path.suffix.lower() != ".npy" and pixels.shape[2] in (2, 4)
    return pixels[..., :-1] if has_alpha else pixels


def check_range(pixels: "np.ndarray", output: Path) -> None:
    """Raise if values are out of the range of an image format; an .npy holds any values."""
    low, high = float(pixels.min(initial=0)), float(pixels.max(initial=0))
    if output.suffix.lower() != ".npy" and not -0.5 < low <= high < 1.5:
        raise ValueError(
            f"'{output}': Expected values from 0 to 1 for a picture (got {low:g} to {high:g}); "
            "write to .npy"
        )


def check_channels(pixels: "np.ndarray", output: Path) -> None:
    """Raise if an image format cannot store the number of channels."""
    suffix, channels = output.suffix.lower(), pixels.shape[2]
    if suffix == ".npy":
        return
    if channels > 4:
        raise ValueError(f"'{output}': Expected 1 to 4 channels (got {channels}); write to .npy")
    if suffix in OPAQUE_SUFFIXES and channels in (2, 4):
        raise ValueError(
            f"'{output}': Expected 1 or 3 channels for {suffix} (got {channels}, with alpha)"
        )


def write_image(pixels: "np.ndarray", output: Path, source: Path) -> None:
    """Write pixels in the layout of ``source``.

    An array ``[H, W]`` gives an array ``[H, W]``; 16 bits stay where the format holds them.
    """
    import numpy as np

    from permutogeo.data.files import replacing
    from permutogeo.data.pixels import save_pixels

    check_range(pixels, output)
    if output.suffix.lower() == source.suffix.lower() == ".npy" and _is_flat(source):
        with replacing(output) as temporary:
            np.save(temporary, pixels[..., 0], allow_pickle=False)
        return
    if output.suffix.lower() not in DEEP_SUFFIXES or pixels.shape[2] != 1 or not _is_deep(source):
        save_pixels(pixels, output)
        return
    from PIL import Image

    picture = Image.fromarray((pixels[..., 0].clip(0, 1) * 65535).round().astype(np.uint16))
    with replacing(output) as temporary:
        picture.save(temporary)


def write_labels(path: Path, labels: "np.ndarray") -> None:
    """Write a palette image whose indices are the labels."""
    import numpy as np
    from PIL import Image

    from permutogeo.data.files import replacing
    from permutogeo.viz import palette

    if int(labels.max(initial=0)) > 255:
        raise ValueError("Expected at most 256 labels, the size of a PNG palette")
    picture = Image.fromarray(labels.astype(np.uint8), "P")
    picture.putpalette(palette(256).ravel().tolist())
    with replacing(path) as temporary:
        picture.save(temporary, "PNG")


def _is_flat(path: Path) -> bool:
    """Return whether an .npy file holds an array ``[H, W]``."""
    import numpy as np

    return np.load(path, mmap_mode="r", allow_pickle=False).ndim == 2


def _is_deep(path: Path) -> bool:
    """Return whether an image file has 16 bits per channel."""
    import numpy as np
    from PIL import Image

    from permutogeo.data.pixels import FORMATS

    if path.suffix.lower() == ".npy":
        return np.load(path, mmap_mode="r", allow_pickle=False).dtype == np.uint16
    with Image.open(path, formats=FORMATS) as picture:
        return picture.mode.startswith("I")
