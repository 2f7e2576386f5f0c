"""Upper bound on the PSNR of 5 x 5 filters, for ``denoise_images.py``
===================================================================

Solves for the filter of least squared error on the training images of BSDS500, and for the filter
of best mean PSNR on the test images, which bounds all learned ones. Both need only a 25 x 25
matrix per image. Writes ``results.json``. Expect 26.23 and 26.26 dB; the paper's table
(``tab:denoising``) has 26.27.

::

    PERMUTOGEO_DATA=/path/to/data python examples/paper/spatial_bound.py
"""

import argparse
import json
from pathlib import Path

import torch
from denoise_images import add_fixed_noise, middle
from torch.nn import functional

from permutogeo.benchmarks.experiment import load_or_exit
from permutogeo.datasets import BSDS500


def moments(data):
    """Return second moments of the 25 shifted noisy images and the clean one."""
    noisy = functional.pad(data.x.view(1, 1, data.height, data.width), [2] * 4, mode="reflect")
    shifted, clean = functional.unfold(noisy, 5)[0].T.double(), data.y[:, 0].double()
    return shifted.T @ shifted / len(clean), shifted.T @ clean / len(clean), clean.square().mean()


def load(split, args):
    """Return the moments of all images, ``[B, 25, 25]``, ``[B, 25]`` and ``[B]``."""
    images = load_or_exit(BSDS500, args.data, split, gray=True)
    images = [images[i] for i in range(2 if args.quick else len(images))]
    if args.quick:
        images = [middle(image, 96) for image in images]
    parts = zip(*(moments(add_fixed_noise(image)) for image in images), strict=True)
    return [torch.stack(part) for part in parts]


def mean_psnr(taps, products, with_clean, of_clean):
    error = of_clean - 2 * with_clean @ taps + torch.einsum("i,bij,j->b", taps, products, taps)
    return -10 * torch.log10(error).mean()


def least_squares(products, with_clean, of_clean):
    return torch.linalg.solve(products.mean(0), with_clean.mean(0))


def best_psnr(*part):
    """Return the filter with the best mean PSNR on a part."""
    taps = least_squares(*part).requires_grad_()
    optimizer = torch.optim.LBFGS([taps], max_iter=200, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        value = -mean_psnr(taps, *part)
        value.backward()
        return value

    optimizer.step(loss)
    return taps.detach()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", help="folder of the data; else PERMUTOGEO_DATA")
    parser.add_argument("--output", type=Path, default=Path("runs/spatial_bound"))
    parser.add_argument("--quick", action="store_true", help="the middle of a few images")
    args = parser.parse_args()
    train, test = load("train", args), load("test", args)
    found = {
        "least squares on train": float(mean_psnr(least_squares(*train), *test)),
        "best PSNR on test": float(mean_psnr(best_psnr(*test), *test)),
    }
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "results.json").write_text(json.dumps(found, indent=2) + "\n")
    for name, value in found.items():
        print(f"{name}: {value:.3f} dB on the test images")


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "figures/gallery/spatial_bound.png"
