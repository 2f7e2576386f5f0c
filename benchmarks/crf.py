"""Benchmark W2: dense CRF inference on an image, beside pydensecrf; then on other programs."""

from __future__ import annotations

import importlib
import statistics
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import torch

from permutogeo.benchmarks import crf_programs, peers
from permutogeo.benchmarks.limits import reset_peak, status
from permutogeo.benchmarks.timing import in_turn, ms, ratio, square_product, table, threads
from permutogeo.nn import DenseCRF, GaussianKernel

LABELS = 21
STEPS = 5
OURS, PEER = "permutogeo.compat.pydensecrf", "pydensecrf"


def photograph(height: int = 333, width: int = 500) -> tuple[np.ndarray, np.ndarray]:
    """Return an image ``[H, W, 3]`` uint8 and smooth random energies ``[L, H W]``."""
    from scipy.ndimage import zoom
    from skimage import data, transform

    image = transform.resize(data.coffee(), (height, width), anti_aliasing=True)
    coarse = np.random.default_rng(0).standard_normal((LABELS, 8, 12))
    fine = 2 * np.stack([zoom(each, (height / 8, width / 12), order=1) for each in coarse])
    probability = np.exp(fine - fine.max(0))
    probability = np.clip(probability / probability.sum(0), 1e-5, None)
    energy = -np.log(probability).reshape(LABELS, -1).astype(np.float32)
    return (255 * image).round().astype(np.uint8), np.ascontiguousarray(energy)


def program(package: str, image: np.ndarray, energy: np.ndarray) -> Callable[[], np.ndarray]:
    """Return an inference written for pydensecrf, with the modules of ``package``."""
    densecrf = importlib.import_module(f"{package}.densecrf")
    height, width = image.shape[:2]

    def infer() -> np.ndarray:
        crf = densecrf.DenseCRF2D(width, height, LABELS)
        crf.setUnaryEnergy(energy)
        crf.addPairwiseGaussian(sxy=3, compat=3)
        crf.addPairwiseBilateral(sxy=80, srgb=13, rgbim=image, compat=10)
        return np.array(crf.inference(STEPS))

    return infer


def module(image: np.ndarray, energy: np.ndarray, copies: int = 1) -> Callable[[], torch.Tensor]:
    """Return the same inference with ``nn.DenseCRF``, for a batch of copies of the image."""
    height, width = image.shape[:2]
    y, x = np.mgrid[:height, :width]
    pos = torch.from_numpy(np.stack([x, y], -1).reshape(-1, 2).astype(np.float32))
    colors = torch.from_numpy(image.reshape(-1, 3).astype(np.float32))
    both, near = torch.cat([pos, colors], 1).repeat(copies, 1), pos.repeat(copies, 1)
    unary = torch.from_numpy(-energy.T.copy()).repeat(copies, 1)
    batch = torch.arange(copies).repeat_interleave(len(pos)) if copies > 1 else None
    kernels = [GaussianKernel(2, 3.0, 3.0), GaussianKernel(5, [80.0, 80.0, 13.0, 13.0, 13.0], 10.0)]
    crf = DenseCRF(LABELS, kernels, num_steps=STEPS)

    @torch.no_grad()
    def infer() -> torch.Tensor:
        return crf(unary, [near, both], batch)

    return infer


def crf(quick: bool = False) -> None:
    """Time the drop-in and the module, images one by one and as a batch, and measure memory."""
    size, repeats, copies = ((40, 60), 1, 2) if quick else ((333, 500), 15, 10)
    image, energy = photograph(*size)
    contenders = {"mm": square_product, "drop-in": program(OURS, image, energy)}
    contenders["module"] = module(image, energy)
    if peers.has(PEER):
        contenders["peer"] = program(PEER, image, energy)
    with threads(2):
        time = in_turn(contenders, repeats)
        single = contenders["module"]
        one_by_one = {"one by one": lambda: [single() for _ in range(copies)]}
        batch = in_turn(one_by_one | {"batch": module(image, energy, copies)}, 1 if quick else 5)
    peer = time.get("peer")
    rows = [
        [
            name,
            ms(time[name]),
            ratio(time[name], peer),
            f"{time[name] / time['mm']:.1f}",
        ]
        for name in ("peer", "drop-in", "module")
        if name in time
    ]
    title = f"W2 dense CRF, {size[0]} x {size[1]}, {LABELS} labels, {STEPS} steps, two kernels"
    table(title, ["pydensecrf and ours", "ms", "÷ peer", "÷ mm"], rows)
    rows = [[name, ms(batch[name]), ratio(batch[name], batch["one by one"])] for name in batch]
    table(f"{copies} images", ["", "ms", "÷ one by one"], rows)
    names = [name for name in (PEER, OURS) if name != PEER or peer]
    rows = [[name, f"{_peak(name, size, 1 if quick else 5):.0f}"] for name in names]
    table("Peak memory of one inference, beyond what is loaded", ["", "MB"], rows)
    crf_programs.programs(quick)


def _peak(package: str, size: tuple[int, int], runs: int) -> float:
    """Return the megabytes that one inference adds: the median over processes.

    The allocator's free memory at the start differs between processes.
    """
    call = f"from permutogeo.benchmarks.crf import peak; print(peak({package!r}, {size}))"
    command = [sys.executable, "-c", call]
    done = [
        subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(runs)
    ]
    return statistics.median(float(run.stdout.split()[-1]) for run in done)


def peak(package: str, size: tuple[int, int]) -> float:
    """Return the megabytes that inference adds after a small warm-up inference."""
    program(package, *photograph(40, 60))()
    image, energy = photograph(*size)
    reset_peak()
    before = status("VmRSS")
    program(package, image, energy)()
    return (status("VmHWM") - before) / 1e6
