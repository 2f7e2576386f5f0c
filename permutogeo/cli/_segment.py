"""``permutogeo segment``: labels for the pixels of an image."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from permutogeo.cli._errors import kind_errors

if TYPE_CHECKING:
    import numpy as np


def segment(
    image: Annotated[Path, typer.Argument(help="The photograph: PNG, JPEG, …")],
    unary: Annotated[
        Path,
        typer.Option(
            help="What a network says of each label at each pixel: an .npy file [H, W, L]."
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The labels, as a PNG with a palette.")
    ],
    overlay: Annotated[
        Path | None, typer.Option(help="Also write the labels over the photograph, as a picture.")
    ] = None,
    kind: Annotated[
        str, typer.Option(help="What the file holds: logits, probabilities or energies.")
    ] = "logits",
    labels_first: Annotated[
        bool, typer.Option("--labels-first", help="The file holds [L, H, W].")
    ] = False,
    sigma_pos: Annotated[float, typer.Option(help="Bandwidth in pixels.")] = 60.0,
    sigma_color: Annotated[float, typer.Option(help="Bandwidth in levels of 255.")] = 8.0,
    weight: Annotated[float, typer.Option(help="Weight of pixels alike in color.")] = 5.0,
    weight_near: Annotated[float, typer.Option(help="Weight of pixels next to each other.")] = 1.0,
    steps: Annotated[int, typer.Option(help="Steps of mean field.")] = 5,
) -> None:
    """Label the pixels of an image by a dense CRF.

    Scores smaller than the image are interpolated: those of a network with a stride need no
    preparation.

    Example: permutogeo segment photo.jpg --unary scores.npy -o labels.png --overlay seen.png
    """
    with kind_errors():
        if output.suffix.lower() != ".png":
            raise ValueError(f"Expected a .png to write the labels to (got '{output}')")
        from permutogeo.image import segment as label_pixels
        from permutogeo.viz import overlay as paint

        photograph = _read_image(image)
        labels: Any = label_pixels(
            photograph,
            _read_unary(unary, labels_first),
            kind=kind,
            sigma_pos=sigma_pos,
            sigma_color=sigma_color,
            weight=weight,
            weight_near=weight_near,
            num_steps=steps,
        )
        _write_labels(output, labels)
        typer.echo(f"{output}: {len(set(labels.ravel().tolist()))} labels")
        if overlay is not None:
            paint(photograph, labels, overlay)
            typer.echo(f"{overlay}")


def _read_image(path: Path) -> "np.ndarray":
    import numpy as np
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as picture:
            return np.asarray(picture.convert("RGB"))
    except UnidentifiedImageError:
        raise ValueError(f"Expected an image (got '{path}', which is none)") from None


def _read_unary(path: Path, labels_first: bool) -> "np.ndarray":
    import numpy as np

    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(
            f"Expected an array of numbers in an .npy file ('{path}': {error})"
        ) from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu" or array.ndim != 3:
        got = (
            f"{array.dtype} of shape {list(array.shape)}"
            if isinstance(array, np.ndarray)
            else "several"
        )
        raise ValueError(f"Expected one array [H, W, L] of numbers in '{path}' (got {got})")
    return (
        np.moveaxis(array, 0, -1).astype(np.float32) if labels_first else array.astype(np.float32)
    )


def _write_labels(path: Path, labels: "np.ndarray") -> None:
    """An image whose pixels are the labels themselves."""
    import numpy as np
    from PIL import Image

    from permutogeo.data._files import replacing
    from permutogeo.viz import palette

    if int(labels.max(initial=0)) > 255:
        raise ValueError("Expected at most 256 labels, as many as a PNG with a palette has")
    picture = Image.fromarray(labels.astype(np.uint8), "P")
    picture.putpalette(palette(256).ravel().tolist())
    with replacing(path) as temporary:
        picture.save(temporary, "PNG")
