"""A photograph colored from scribbles
===================================

Takes the colors of short strokes, 1.5 % of the pixels, of photographs of BSDS500 and colors the
gray image with them: by a joint bilateral filter over position and brightness, and by the bilateral
solver. Writes ``colorized.png`` and prints the PSNR of the colors (docs/guides/solver.md).

::

    PERMUTOGEO_DATA=/path/to/data python examples/colorize.py
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from permutogeo.datasets import BSDS500
from permutogeo.functional import fill_unreached, gaussian_filter
from permutogeo.image import colorize
from permutogeo.lattice.normalization import append_ones, divide_by_mass
from permutogeo.viz import image_panels

LUMA = torch.tensor([0.299, 0.587, 0.114])


def draw_strokes(height, width, share, seed):
    """Return a mask of random short strokes, two pixels wide."""
    rng = np.random.default_rng(seed)
    mask = np.zeros((height, width), bool)
    while mask.mean() < share:
        length, angle = rng.uniform(8, 24), rng.uniform(0, 2 * np.pi)
        step = np.arange(0, length, 0.5)
        row = rng.uniform(0, height) + step * np.sin(angle)
        column = rng.uniform(0, width) + step * np.cos(angle)
        for dy in (0, 1):
            y, x = np.round(row).astype(int) + dy, np.round(column).astype(int)
            inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
            mask[y[inside], x[inside]] = True
    return torch.from_numpy(mask)


def joint_bilateral(gray, image, mask, sigma_pos=32.0, sigma_gray=0.05):
    """Filter the color differences of the strokes to all pixels.

    The bandwidths are the best of seven pairs on six training photographs.
    """
    height, width = mask.shape
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    feature = torch.stack([x / sigma_pos, y / sigma_pos, gray[0] / sigma_gray], -1).view(-1, 3)
    given = mask.view(-1)
    chroma = (image - gray).flatten(1).T[given]
    pair = (feature[given], feature)
    sums = gaussian_filter(append_ones(chroma), pair, normalize=None)
    out = fill_unreached(divide_by_mass(sums), sums[:, -1] > 0, chroma, pair)
    return (gray + out.T.view_as(image)).clamp(0, 1)


def psnr(found, image):
    return float(-10 * (found - image).square().mean().log10())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", help="folder of the data; else PERMUTOGEO_DATA")
    parser.add_argument("--output", type=Path, default=Path("runs/colorize"))
    parser.add_argument("--share", type=float, default=0.015, help="share of scribbled pixels")
    parser.add_argument("--count", type=int, default=20, help="number of photographs")
    parser.add_argument("--shown", type=int, default=15, help="number of the one that is drawn")
    parser.add_argument("--quick", action="store_true", help="one photograph")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    images = BSDS500(args.data, "test")
    count = 1 if args.quick else min(args.count, len(images))
    scores = {"gray": [], "joint bilateral": [], "solver": []}
    for i in range(count):
        image = images.image(i)
        gray = (image * LUMA.view(3, 1, 1)).sum(0, keepdim=True)
        mask = draw_strokes(*gray.shape[1:], args.share, seed=i)
        found = {
            "gray": gray.expand(3, -1, -1),
            "joint bilateral": joint_bilateral(gray, image, mask),
            "solver": colorize(gray, image, mask),
        }
        for name, result in found.items():
            scores[name].append(psnr(result, image))
        if i == min(args.shown, count - 1):
            notes = {name: f"{values[-1]:.2f} dB" for name, values in scores.items()}
            scribbles = torch.where(mask, image, 0.3 + 0.7 * gray)
            panels = {"scribbles": scribbles, **{n: found[n] for n in list(found)[1:]}}
            panels["true"] = image
            image_panels(panels, args.output / "colorized.png", notes=notes, columns=2)
    means = {name: float(np.mean(values)) for name, values in scores.items()}
    better = np.mean(np.array(scores["solver"]) > np.array(scores["joint bilateral"]))
    for name, value in means.items():
        print(f"{name:16} {value:.2f} dB over {count} photographs")
    print(f"the solver is better on {better:.0%} of them")
    (args.output / "results.json").write_text(json.dumps({"psnr": means, "better": float(better)}))


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "runs/solver_colorized.png"
