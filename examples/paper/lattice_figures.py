"""Lattice cells over an image: the paper's ``fig:lattice`` and ``fig:latticeviz``
===============================================================================

Builds lattices over the features position, color and both of an image (by default a generated
one) and draws all pixels of a simplex in one color. Writes the pictures, the Gaussian on the
stencil of each lattice, and a page.

::

    python examples/paper/lattice_figures.py photograph.jpg
"""

import argparse
from pathlib import Path

import numpy as np

from permutogeo.benchmarks.record import command_line
from permutogeo.ops import stencils
from permutogeo.viz import experiment_page, filter_slices, image_panels, lattice_cells


def generate(width=320, height=240):
    """Return a generated landscape with a ball, ``[height, width, 3]``."""
    y, x = np.mgrid[:height, :width] / height
    sky = np.stack([0.35 + 0.3 * y, 0.55 + 0.3 * y, 0.9 - 0.1 * y], -1)
    field = np.stack([0.25 + 0.2 * y, 0.45 + 0.25 * (1 - y), 0.2 + 0 * y], -1)
    image = np.where((y > 0.6 + 0.04 * np.sin(7 * x))[..., None], field, sky)
    distance = np.hypot(x - 0.65, y - 0.5) / 0.28
    light = np.clip(1.1 - np.hypot(x - 0.57, y - 0.4) / 0.45, 0.2, 1)[..., None]
    return np.where((distance < 1)[..., None], light * np.array([0.95, 0.25, 0.2]), image)


def draw(image, output, scales):
    """Draw the first scale and all scales; color bandwidths are in 0 to 255, as in the paper."""
    finer, first, notes = {}, {"Image": image}, {}
    for scale in scales:
        for kind, sigmas in {
            "Position": {"sigma_pos": scale},
            "Color": {"sigma_color": scale / 255},
            "Position, color": {"sigma_pos": scale, "sigma_color": scale / 255},
        }.items():
            cells = lattice_cells(image, **sigmas)
            shown = {"Position": "x, y", "Color": "r, g, b"}.get(kind, "x, y, r, g, b")
            finer[f"{1 / scale:.2g} ({shown})"] = cells
            if scale == scales[0]:
                first[kind], notes[kind] = cells, f"{1 / scale:.2g} ({shown})"
    title = "All pixels in a simplex of the lattice have the same color"
    image_panels(first, output / "lattice.png", notes=notes, title=title)
    image_panels(finer, output / "lattices.png", columns=3, title=title)
    for dim in (2, 3):
        gaussian = {"Gaussian": stencils.gaussian(dim, 2)}
        filter_slices(gaussian, dim, 2, output / f"gaussian_{dim}d.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("image", nargs="?", help="a photograph; a generated image by default")
    parser.add_argument("--output", type=Path, default=Path("runs/lattice_figures"))
    parser.add_argument("--quick", action="store_true", help="a small image, one scale")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    size = (96, 72) if args.quick else (320, 240)
    image = generate(*size) if args.image is None else args.image
    # The paper's 0.01 (x, y) is a bandwidth of 100 pixels.
    draw(image, args.output, [40] if args.quick else [100, 50, 25])
    captions = {
        "Cells of the lattice for three kinds of features": "lattice.png",
        "Finer lattices: the factor on the features sets the size of the cells": "lattices.png",
    }
    filters = {f"The Gaussian in {d} dimensions": f"gaussian_{d}d.png" for d in (2, 3)}
    experiment_page(
        args.output / "page.html",
        title="The permutohedral lattice over an image",
        command=command_line(),
        pictures={caption: args.output / name for caption, name in captions.items()},
        curves={caption: args.output / name for caption, name in filters.items()},
    )
    print(f"{args.output / 'page.html'} shows all pictures of {args.output}")


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_number = 3
