"""``permutogeo filter``: an image smoothed within its edges."""

from pathlib import Path
from typing import Annotated, Any

import typer

from permutogeo.cli._errors import kind_errors
from permutogeo.cli._pictures import check_output, read_picture, without_alpha, write_picture


def filter_image(
    image: Annotated[Path, typer.Argument(help="The image: PNG, JPEG, TIFF, …, or an .npy.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The result: PNG, JPEG, TIFF, …, or .npy.")
    ],
    guide: Annotated[
        Path | None,
        typer.Option(help="An image of the same size whose edges are kept instead of its own."),
    ] = None,
    sigma_pos: Annotated[float, typer.Option(help="Bandwidth in pixels.")] = 8.0,
    sigma_color: Annotated[float, typer.Option(help="Bandwidth in levels of 255.")] = 20.0,
) -> None:
    """Smooth an image within its edges, by a bilateral filter.

    Transparency stays as it is.

    Example: permutogeo filter photo.jpg -o smooth.png --sigma-pos 8 --sigma-color 20
    """
    with kind_errors():
        check_output(output, [image] if guide is None else [image, guide])
        from permutogeo.image import bilateral_filter

        pixels = read_picture(image)
        colors = without_alpha(image, pixels)
        edges = None if guide is None else without_alpha(guide, read_picture(guide))
        smooth: Any = bilateral_filter(colors, sigma_pos, sigma_color / 255, edges)
        out = pixels.copy()
        out[..., : colors.shape[2]] = smooth
        write_picture(out, output, image)
        typer.echo(f"{output}: {out.shape[1]} x {out.shape[0]} pixels")
