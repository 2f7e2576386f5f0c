"""Images as the commands read and write them: floats in [0, 1], and 16 bits where they came so."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

# What holds 16 bits of one channel.
DEEP = (".png", ".tif", ".tiff")


def read_picture(path: Path) -> "np.ndarray":
    """The pixels ``[H, W, C]``; those of an .npy in their own units if it holds floats."""
    from permutogeo.data._pixels import load_pixels

    return load_pixels(path).numpy()


def without_alpha(path: Path, pixels: "np.ndarray") -> "np.ndarray":
    """Gray or color; of an .npy all channels."""
    has_alpha = path.suffix.lower() != ".npy" and pixels.shape[2] in (2, 4)
    return pixels[..., :-1] if has_alpha else pixels


def check_output(output: Path, inputs: list[Path]) -> None:
    """Raise, before anything is done, unless an image can be written there."""
    from permutogeo.cli._jobs import check_file
    from permutogeo.data._pixels import WRITABLE

    check_file(output, WRITABLE)
    for path in inputs:
        if output.exists() and path.exists() and output.samefile(path):
            raise ValueError(f"Expected to write to another place than '{path}' (got '{output}')")


def write_picture(pixels: "np.ndarray", output: Path, source: Path) -> None:
    """Write whole or not at all, with 16 bits where ``source`` has them and the format too."""
    from permutogeo.data._files import replacing
    from permutogeo.data._pixels import save_pixels

    suffix = output.suffix.lower()
    low, high = float(pixels.min(initial=0)), float(pixels.max(initial=0))
    if suffix != ".npy" and not -0.5 < low <= high < 1.5:
        raise ValueError(
            f"'{output}': Expected values from 0 to 1 for a picture (got {low:g} to {high:g}); "
            "write to .npy"
        )
    if suffix not in DEEP or pixels.shape[2] != 1 or not _is_deep(source):
        save_pixels(pixels, output)
        return
    import numpy as np
    from PIL import Image

    picture = Image.fromarray((pixels[..., 0].clip(0, 1) * 65535).round().astype(np.uint16))
    with replacing(output) as temporary:
        picture.save(temporary)


def _is_deep(path: Path) -> bool:
    """Whether a file has 16 bits."""
    import numpy as np
    from PIL import Image

    if path.suffix.lower() == ".npy":
        return np.load(path, mmap_mode="r", allow_pickle=False).dtype == np.uint16
    with Image.open(path) as picture:
        return picture.mode.startswith("I")
