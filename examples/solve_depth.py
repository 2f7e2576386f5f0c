"""Depth upsampled 8 times along a photograph by the bilateral solver
==================================================================

Block means of depth maps of NYU Depth V2 are upsampled by bicubic interpolation and refined by the
bilateral solver, which trusts the interpolation at the centers of blocks. The error of the block
means is then added back twice; the same correction is given to bicubic interpolation and to the
joint bilateral filter. Bandwidths and smoothness are chosen on training images. The images and the
error are those of ``examples/paper/upsample_depth.py``, whose learned filter reaches 0.0651 m.
Expect 0.054 m, and 0.060 m for the corrected joint bilateral filter (docs/guides/solver.md).

::

    PERMUTOGEO_DATA=/path/to/data python examples/solve_depth.py
"""

import argparse
import math
import time
from pathlib import Path

from scipy import ndimage
from torch.nn import functional

from permutogeo.benchmarks.record import write_results
from permutogeo.datasets import NYUDepth
from permutogeo.image import bilateral_solver_upsample, joint_bilateral_upsample
from permutogeo.train import grid_search
from permutogeo.viz import image_panels

FACTOR = 8
SEARCH = {"sigma_pos": [4.0, 8.0], "sigma_color": [0.05, 0.1], "lam": [0.3, 1.0, 4.0]}


def load(data, split, limit):
    """Yield small depth, photograph, depth in meters and where it is known."""
    images = NYUDepth(data, split, crop=True)
    every = 1 if limit is None else max(1, len(images) // limit)
    for i in range(0, len(images), every)[:limit]:
        depth, photo = images.depth(i), images.image(i)
        size = [n // FACTOR * FACTOR for n in depth.shape[1:]]
        top, left = ((n - m) // 2 for n, m in zip(depth.shape[1:], size, strict=True))
        depth, photo = (
            x[:, top : top + size[0], left : left + size[1]].contiguous() for x in (depth, photo)
        )
        known = (depth > 0).float()
        small, share = (functional.avg_pool2d(x, FACTOR) for x in (depth, known))
        yield nearest(small / share.clamp_min(1e-6), share > 0), photo, depth, known


def nearest(small, known):
    """Fill unknown pixels with the nearest known one."""
    place = ndimage.distance_transform_edt(
        ~known[0].numpy(), return_distances=False, return_indices=True
    )
    return small[:, place[0], place[1]]


def interpolate(small, size, mode="bicubic"):
    return functional.interpolate(small[None], size, mode=mode)[0]


def correct(large, small, steps=2):
    """Add the error of the block means, interpolated."""
    for _ in range(steps):
        error = small - functional.avg_pool2d(large, FACTOR)
        large = large + interpolate(error, large.shape[1:])
    return large


METHODS = {
    "bicubic": lambda small, photo, best: interpolate(small, photo.shape[1:]),
    "bicubic, corrected": lambda small, photo, best: correct(
        interpolate(small, photo.shape[1:]), small
    ),
    "joint bilateral": lambda small, photo, best: joint_bilateral_upsample(small, photo),
    "joint bilateral, corrected": lambda small, photo, best: correct(
        joint_bilateral_upsample(small, photo), small
    ),
    "solver": lambda small, photo, best: bilateral_solver_upsample(
        small, photo, **best, corrections=0
    ),
    "solver, corrected": lambda small, photo, best: bilateral_solver_upsample(small, photo, **best),
}


def rmse(found, depth, known):
    return math.sqrt(float(((found - depth).square() * known).sum() / known.sum()))


def draw(sample, best, path):
    small, photo, depth, known = sample
    names = ("bicubic", "joint bilateral, corrected", "solver, corrected")
    found = {name: METHODS[name](small, photo, best) for name in names}
    notes = {name: f"{rmse(image, depth, known):.4f} m" for name, image in found.items()}
    images = {"small": small, "true": depth, **found}
    images = {name: (image / depth.max()).clamp(0, 1) for name, image in images.items()}
    height, width = depth.shape[1:]
    crop = (width // 2, height // 2, width // 3, height // 3)
    image_panels({"photograph": photo, **images}, path, notes=notes, crop=crop, columns=3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", help="folder of the data; else PERMUTOGEO_DATA")
    parser.add_argument("--output", type=Path, default=Path("runs/solve_depth"))
    parser.add_argument("--limit", type=int, help="test images; by default all")
    parser.add_argument("--quick", action="store_true", help="one image, no search")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    train = list(load(args.data, "train", 1 if args.quick else 8))

    def error(**settings):
        return sum(
            rmse(bilateral_solver_upsample(small, photo, **settings), depth, known)
            for small, photo, depth, known in train
        ) / len(train)

    search = {name: values[:1] for name, values in SEARCH.items()} if args.quick else SEARCH
    best = grid_search(error, search).best
    print(f"chosen on {len(train)} training images: {best}")
    test = list(load(args.data, "test", 1 if args.quick else args.limit))
    record = {"chosen": best, "rmse": {}}
    for name, method in METHODS.items():
        errors = [
            rmse(method(small, photo, best), depth, known) for small, photo, depth, known in test
        ]
        record["rmse"][name] = sum(errors) / len(errors)
        print(f"{name:28} {record['rmse'][name]:.4f} m over {len(test)} images", flush=True)
    write_results(args, seconds=time.perf_counter() - start, **record)
    draw(test[0], best, args.output / "depth.png")


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "runs/solver_depth.png"
