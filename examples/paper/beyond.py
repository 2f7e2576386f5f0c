"""The best of the paper, of a lattice of ours, and of a simple method without one
===============================================================================

Collects one row for each experiment of the paper from the tables in ``docs/runs``, with the
commands that measured them, and writes the table ``paper_beyond.json``.

::

    python examples/paper/beyond.py
"""

import argparse
import json
import re
from pathlib import Path

from permutogeo.benchmarks.record import write_table

RUNS = Path(__file__).parents[2] / "docs" / "runs"
COLUMNS = [
    "", "the paper's best", "a lattice today", "why it differs", "without a lattice", "measured by",
]  # fmt: skip


def read(file):
    return json.loads((RUNS / f"{file}.json").read_text(encoding="utf-8"))


def cell(file, row, column, part=None):
    """Return a cell of a table by the starts of its row and column, or the part in brackets."""
    table = read(file)
    at = next(i for i, name in enumerate(table["columns"]) if name.startswith(column))
    text = next(str(cells[at]) for cells in table["rows"] if cells[0].startswith(row))
    outside, _, inside = text.strip("*").partition(" (")
    return inside.rstrip(")") if part == "brackets" else outside


def commands(*files, options=""):
    """Return the scripts and options behind tables; some rows of the last one have their own."""
    found = [re.search(r"\w+\.py.*", read(file)["command"])[0] for file in files]
    if options:
        found.append(f"{found[-1].split()[0]} {options}")
    return "; ".join(f"`{command}`" for command in found)


def rows():
    """Return the rows of the table."""
    share = {
        name: float(cell("denoise_bodies_today", name, "RMSE"))
        / float(cell("denoise_bodies_today", "noisy", "RMSE"))
        for name in ("permutogeo.denoise", "normal smoothing")
    }
    return [
        [
            "color upsampling 8x, VOC 2012, PSNR in dB",
            cell("upsample_color", "8x", "learned", "brackets"),
            f"{cell('upsample_color', '8x', 'learned')} learned; "
            f"{cell('upsample_color_chroma', 'bilateral, chroma', 'PSNR')} on chroma",
            "bandwidths searched; gray is known, so that only chroma has to be upsampled",
            f"**{cell('upsample_color_chroma', 'bicubic, chroma', 'PSNR')}** bicubic on chroma",
            commands("upsample_color", "upsample_color_chroma"),
        ],
        [
            "depth upsampling 8x, RMSE in m",
            f"{cell('upsample_depth', 'learned', 'the paper')} of predictions",
            f"**{cell('solve_depth', 'bilateral solver', 'corrected')}** bilateral solver; "
            f"{cell('upsample_depth', 'learned', 'RMSE')} learned filter",
            "measured depth instead of predictions: not comparable; the solver keeps block means",
            f"{cell('solve_depth', 'bicubic', 'corrected')} bicubic that keeps block means",
            commands("upsample_depth", "solve_depth"),
        ],
        [
            "semantic segmentation, gain in IoU",
            cell("segment_images", "learned CRF, 2 loose", "the paper"),
            f"**{cell('segment_images', 'learned CRF, 2 steps', 'gain')}** learned kernels",
            "a network that leaves less to correct; 61 training images",
            f"{cell('segment_images', 'guided filter', 'gain')} guided filter",
            commands("segment_images", options="--rows guided --trials 8"),
        ],
        [
            "material segmentation, gain in accuracy",
            "+11.91",
            f"**{cell('segment_scenes', 'Gauss CRF, 2', 'accuracy', 'brackets')}** Gaussian",
            "generated images; learned kernels see 16 images and gain less",
            f"{cell('segment_scenes', 'guided filter', 'accuracy', 'brackets')} guided filter",
            commands("segment_scenes"),
        ],
        [
            "tiles, steps to an IoU of 0.95",
            None,
            f"**{cell('tiles', 'BNN', 'steps to')}**",
            "filters over position and color instead of position alone",
            f"{cell('tiles', 'U-Net', 'steps to')} U-Net with batch normalization",
            commands("tiles", options="--only U-Net"),
        ],
        [
            "characters, test accuracy in percent",
            "84.21 BNN-DeepCNet",
            f"**{cell('assamese', 'LatticeCNet', 'test')}** LatticeCNet",
            "all layers on the lattice, normalized; 20 epochs instead of 182",
            f"{cell('assamese', 'CNN', 'test')} plain network with batch normalization",
            commands("assamese", options="--only CNN"),
        ],
        [
            "digits, 20 % of the pixels, accuracy",
            f"{cell('sparse_digits', 'BNN 20%', '20%', 'brackets')} BNN",
            f"**{cell('sparse_digits', 'LatticeCNet 20%', '20%')}** LatticeCNet",
            "all layers on the lattice",
            f"{cell('sparse_digits', 'CNN 20%', '20%')} plain network with batch normalization",
            commands("sparse_digits", options="--kinds CNN --rates 20%"),
        ],
        [
            "image denoising, PSNR in dB",
            cell("denoise_images", "spatial + bilateral", "the paper"),
            f"**{cell('denoise_images', '`BilateralNet`', 'PSNR')}** `BilateralNet`; "
            f"{cell('denoise_images', 'spatial + bilateral', 'PSNR')} the same filters",
            "a network on 10,000 crops; bandwidths searched",
            f"{cell('denoise_images', 'convolutions 3 x 3, 10,', 'PSNR')} six plain convolutions; "
            f"{cell('denoise_images', 'scikit-image, non-local', 'PSNR')} non-local means",
            commands("denoise_images", options="--methods cnn --epochs 50"),
        ],
        [
            "bodies, RMSE relative to the noisy one",
            f"{2.825 / 5.774:.3f}",
            f"**{share['permutogeo.denoise']:.3f}** `permutogeo.denoise`",
            "networks on normals; other bodies and noise than the paper's",
            f"{share['normal smoothing']:.3f} smoothing of the normals",
            commands("denoise_bodies_today"),
        ],
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("runs/beyond"))
    parser.add_argument("--quick", action="store_true", help="no difference: nothing is measured")
    args = parser.parse_args()
    table = rows()
    for row in table:
        print("; ".join(str(text) for text in row if text))
    title = "Beyond the paper: its best figures, ours today, and a simple method without a lattice"
    write_table(args.output / "paper_beyond.json", title, COLUMNS, table)


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "figures/gallery/beyond.png"
