"""``permutogeo upsample``: a small image at the size of a larger one, along its edges."""

from pathlib import Path
from typing import Annotated, Any

import typer

from permutogeo.cli._errors import kind_errors
from permutogeo.cli._pictures import check_output, read_picture, without_alpha, write_picture


def upsample(
    low: Annotated[
        Path, typer.Argument(help="The small image: colors, depth of 8 or 16 bits, or an .npy.")
    ],
    guide: Annotated[
        Path, typer.Option(help="The large image, a whole number of times as high and wide.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The result: PNG, JPEG, TIFF, …, or .npy.")
    ],
    sigma_pos: Annotated[
        float | None,
        typer.Option(help="Bandwidth in pixels of the guide; four pixels of LOW if not given."),
    ] = None,
    sigma_color: Annotated[
        float, typer.Option(help="Bandwidth of the guide in levels of 255.")
    ] = 6.0,
) -> None:
    """Enlarge an image so that it follows the edges of a guide.

    Smaller bandwidths follow LOW more closely: try 1 to 2 pixels of LOW for what changes within
    surfaces, such as depth.

    Example: permutogeo upsample colors.png --guide gray.png -o large.png
    """
    with kind_errors():
        check_output(output, [low, guide])
        from permutogeo.image import joint_bilateral_upsample

        small, large = read_picture(low), without_alpha(guide, read_picture(guide))
        if sigma_pos is None:
            sigma_pos = 4.0 * max(1, round(large.shape[0] / small.shape[0]))
        out: Any = joint_bilateral_upsample(small, large, sigma_pos, sigma_color / 255)
        write_picture(out, output, low)
        sizes = [f"{pixels.shape[1]} x {pixels.shape[0]}" for pixels in (small, out)]
        typer.echo(f"{output}: {sizes[0]} to {sizes[1]} pixels")
