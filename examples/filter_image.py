"""Bilateral filter of a noisy image
=================================

Draws a scene, adds noise, smooths it with a 5-D bilateral filter on the lattice and writes
``before_after.png``: noisy, filtered, clean. Expect the PSNR to rise from about 20 to about 37 dB,
and the lattice to agree with the exact filter to 53 dB.

::

    python examples/filter_image.py --output demo-output
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import permutogeo as pg


def draw_scene(size: int) -> np.ndarray:
    """Return flat and shaded regions with sharp edges, ``[size, size, 3]`` in [0, 1]."""
    y, x = np.mgrid[:size, :size] / size
    image = np.stack([0.35 + 0.4 * y, 0.5 + 0.3 * y, 0.85 - 0.2 * y], -1)
    hills = y > 0.62 + 0.08 * np.sin(9 * x) + 0.03 * np.sin(23 * x + 1)
    image[hills] = np.stack([0.2 + 0.2 * x, 0.45 - 0.15 * y, 0.15 + 0.1 * x], -1)[hills]
    distance = np.hypot(x - 0.72, y - 0.28)
    image[distance < 0.14] = (0.98, 0.85, 0.35)
    house = (abs(x - 0.3) < 0.14) & (y > 0.42) & (y < 0.72)
    image[house] = (0.75, 0.35, 0.3)
    roof = (y > 0.26) & (y < 0.42) & (abs(x - 0.3) < 1.1 * (y - 0.26))
    image[roof] = (0.3, 0.22, 0.25)
    window = (abs(abs(x - 0.3) - 0.06) < 0.03) & (abs(y - 0.53) < 0.04)
    image[window] = (0.95, 0.9, 0.6)
    return image.astype(np.float32)


def psnr(image: np.ndarray, clean: np.ndarray) -> float:
    return float(-10 * np.log10(np.mean((image - clean) ** 2)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--noise", type=float, default=0.1)
    parser.add_argument("--quick", action="store_true", help="a small picture")
    args = parser.parse_args()

    clean = draw_scene(96 if args.quick else args.size)
    rng = np.random.default_rng(0)
    noisy = clean + args.noise * rng.standard_normal(clean.shape).astype(np.float32)

    sigma_pos, sigma_color = 5.0, 3.0 * args.noise
    pg.image.bilateral_filter(noisy[:8, :8], sigma_pos, sigma_color)  # compiles on first use
    start = time.perf_counter()
    smooth = pg.image.bilateral_filter(noisy, sigma_pos, sigma_color)
    seconds = time.perf_counter() - start
    print(f"{clean.shape[0]} x {clean.shape[1]} pixels filtered in {1e3 * seconds:.0f} ms")
    print(f"PSNR {psnr(noisy, clean):.2f} dB noisy, {psnr(smooth, clean):.2f} dB filtered")

    crop = torch.from_numpy(noisy[:128, :128])
    y, x = torch.meshgrid(*(torch.arange(n) / sigma_pos for n in crop.shape[:2]), indexing="ij")
    feature = torch.cat([torch.stack([x, y], -1), crop / sigma_color], -1).flatten(0, 1)
    print(pg.functional.approximation_report(crop.flatten(0, 1), feature, samples=1024))

    args.output.mkdir(parents=True, exist_ok=True)
    path = args.output / "before_after.png"
    panels = np.concatenate([noisy, smooth, clean], axis=1)
    Image.fromarray((panels.clip(0, 1) * 255).round().astype(np.uint8)).save(path)
    print(f"noisy, filtered, clean: {path}")


if __name__ == "__main__":
    main()
