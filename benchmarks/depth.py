"""Error of depth upsampling on NYU Depth V2: bilinear, bicubic and joint bilateral.

Depth is reduced by block means and upsampled again. Run ``python -m permutogeo.benchmarks.depth``
with ``PERMUTOGEO_DATA`` set; ``--limit 5`` takes the first five images.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

from torch import Tensor
from torch.nn import functional

from permutogeo.datasets import NYUDepth
from permutogeo.image import joint_bilateral_upsample

# Depth of the data is stored in levels of 255 for 10 m.
LEVELS_PER_METER = 25.5
FACTORS = (2, 4, 8)


def _interpolate(small: Tensor, guide: Tensor, mode: str) -> Tensor:
    return functional.interpolate(small[None], guide.shape[1:], mode=mode)[0]


METHODS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "bilinear": partial(_interpolate, mode="bilinear"),
    "bicubic": partial(_interpolate, mode="bicubic"),
    "joint bilateral (default)": joint_bilateral_upsample,
}


def measure(limit: int | None = None, split: str = "all") -> dict[str, dict[int, float]]:
    """Return the mean over images of the RMSE in levels of 255, by method and factor."""
    images = NYUDepth(split=split)
    count = len(images) if limit is None else min(limit, len(images))
    errors: dict[str, dict[int, float]] = {name: dict.fromkeys(FACTORS, 0.0) for name in METHODS}
    for i in range(count):
        data = images[i]
        size = (data.height, data.width)
        guide = data.x.T.reshape(3, *size)[:, : size[0] // 8 * 8, : size[1] // 8 * 8]
        depth = LEVELS_PER_METER * data.y.reshape(1, *size)[:, : guide.shape[1], : guide.shape[2]]
        for factor in FACTORS:
            small = functional.avg_pool2d(depth[None], factor)[0]
            for name, method in METHODS.items():
                error = method(small, guide.contiguous()) - depth
                errors[name][factor] += float(error.square().mean().sqrt()) / count
    return errors


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, help="number of images")
    parser.add_argument("--split", default="all", choices=("train", "test", "all"))
    errors = measure(**vars(parser.parse_args()))
    print(f"{'RMSE, levels of 255':28}" + "".join(f"{f'{factor}x':>8}" for factor in FACTORS))
    for name, row in errors.items():
        print(f"{name:28}" + "".join(f"{row[factor]:8.3f}" for factor in FACTORS))


if __name__ == "__main__":
    main()
