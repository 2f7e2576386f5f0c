"""``permutogeo filter``: bilateral filter of an image."""

from pathlib import Path
from typing import Annotated, Any

import typer

from permutogeo.cli.console import note_compiling, note_loading, report_errors, say
from permutogeo.cli.image_files import (
    check_channels,
    compute_on,
    read_image,
    without_alpha,
    write_image,
)
from permutogeo.cli.options import Device, check_device, check_positive
from permutogeo.cli.paths import check_image_paths, make_folders


def filter_image(
    image: Annotated[
        Path, typer.Argument(metavar="IMAGE", help="Image (PNG, JPEG, TIFF, …) or array (.npy).")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Output image (PNG, JPEG, TIFF, …) or .npy.")
    ],
    guide: Annotated[
        Path | None,
        typer.Option(help="Image of the same size whose edges are preserved instead."),
    ] = None,
    sigma_pos: Annotated[float, typer.Option(help="Bandwidth in pixels.")] = 8.0,
    sigma_color: Annotated[float, typer.Option(help="Bandwidth in levels of 255.")] = 20.0,
    device: Device = "cpu",
) -> None:
    """Smooth an image and preserve its edges, by a bilateral filter.

    An alpha channel is kept unchanged.

    Example:

    \b
    permutogeo filter photo.jpg -o smooth.png --sigma-pos 8 --sigma-color 20
    """
    with report_errors():
        check_image_paths([image] if guide is None else [image, guide], [output])
        check_positive("--sigma-pos", sigma_pos)
        check_positive("--sigma-color", sigma_color)
        note_loading()
        from permutogeo.image import bilateral_filter

        check_device(device)
        note_compiling()
        pixels = read_image(image)
        check_channels(pixels, output)
        colors = without_alpha(image, pixels)
        edges = [] if guide is None else [without_alpha(guide, read_image(guide))]
        smooth: Any = compute_on(
            device,
            lambda x, y=None: bilateral_filter(x, sigma_pos, sigma_color / 255, y),
            colors,
            *edges,
        )
        out = pixels.copy()
        out[..., : colors.shape[2]] = smooth
        make_folders([output])
        write_image(out, output, image)
        say(f"{output}: {out.shape[1]} x {out.shape[0]} pixels")
