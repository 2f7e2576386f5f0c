"""``permutogeo upsample``: joint bilateral upsampling of an image."""

from pathlib import Path
from typing import Annotated, Any

import typer

from permutogeo.cli.console import note_compiling, note_loading, report_errors, say
from permutogeo.cli.image_files import (
    check_channels,
    check_range,
    compute_on,
    read_image,
    without_alpha,
    write_image,
)
from permutogeo.cli.options import Device, check_device, check_positive
from permutogeo.cli.paths import check_image_paths, make_folders


def upsample(
    low: Annotated[
        Path,
        typer.Argument(
            metavar="LOW",
            help="Low-resolution image: colors, depth of 8 or 16 bits, or an array (.npy).",
        ),
    ],
    guide: Annotated[
        Path,
        typer.Option(help="High-resolution image, larger by an integer factor."),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Output image (PNG, JPEG, TIFF, …) or .npy.")
    ],
    sigma_pos: Annotated[
        float | None,
        typer.Option(
            help="Bandwidth in pixels of the guide; by default chosen by the factor and by the "
            "number of channels."
        ),
    ] = None,
    sigma_color: Annotated[
        float | None,
        typer.Option(
            help="Bandwidth of the guide in levels of 255; by default 6, or 24 for LOW "
            "with a single channel."
        ),
    ] = None,
    device: Device = "cpu",
) -> None:
    """Upsample an image along the edges of a high-resolution guide.

    A single channel, such as depth, is interpolated, and the guide corrects its edges; colors are
    weighted means of the low-resolution colors. If a bandwidth is given, both are weighted means.

    Example:

    \b
    permutogeo upsample depth.png --guide photo.jpg -o large.png
    """
    with report_errors():
        check_image_paths([low, guide], [output])
        for name, sigma in (("--sigma-color", sigma_color), ("--sigma-pos", sigma_pos)):
            if sigma is not None:
                check_positive(name, sigma)
        note_loading()
        from permutogeo.image import joint_bilateral_upsample

        check_device(device)
        note_compiling()
        small, large = read_image(low), without_alpha(guide, read_image(guide))
        check_range(small, output)
        check_channels(small, output)
        sigmas = (sigma_pos, None if sigma_color is None else sigma_color / 255)
        out: Any = compute_on(
            device, lambda x, y: joint_bilateral_upsample(x, y, *sigmas), small, large
        )
        make_folders([output])
        write_image(out, output, low)
        sizes = [f"{pixels.shape[1]} x {pixels.shape[0]}" for pixels in (small, out)]
        say(f"{output}: {sizes[0]} to {sizes[1]} pixels")
