"""Dense CRFs as public projects run them: their labels, kernels and steps, beside pydensecrf.

Images and volumes are of the size and kind that the projects use; the settings are those of their
code. Processor time on one thread, since such programs run one process per core.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from permutogeo.benchmarks import peers
from permutogeo.benchmarks.timing import in_turn, ms, once_on_processor, ratio, table, threads

OURS, PEER = "permutogeo.compat.pydensecrf", "pydensecrf"


@dataclass(frozen=True)
class Program:
    """A program that was written for pydensecrf.

    Args:
        name: The project, or the kind of data.
        shape: Size of the image or volume.
        labels: Number of labels.
        near: Bandwidth and compatibility of the kernel over positions.
        alike: Bandwidth of positions, bandwidth of colors and compatibility of the other kernel.
        steps: Steps of inference.
        channels: Channels of the image or volume.
        normalize: Whether kernels are normalized.
        matrix: Whether compatibilities are matrices.
    """

    name: str
    shape: tuple[int, ...]
    labels: int
    near: tuple[float, float]
    alike: tuple[float, float, float]
    steps: int
    channels: int = 3
    normalize: bool = True
    matrix: bool = False

    def size(self, quick: bool) -> tuple[int, ...]:
        return tuple(size // 8 for size in self.shape) if quick else self.shape

    def inference(self, package: str, quick: bool = False) -> Callable[[], np.ndarray]:
        """Return the inference with the modules of ``package``."""
        shape = self.size(quick)
        energy = smooth_energies(self.labels, shape)
        densecrf = importlib.import_module(f"{package}.densecrf")
        how = densecrf.NORMALIZE_SYMMETRIC if self.normalize else densecrf.NO_NORMALIZATION
        add = self._add_image_kernels if len(shape) == 2 else self._add_volume_kernels
        add_kernels = add(package, shape, how)

        def infer() -> np.ndarray:
            points = int(np.prod(shape))
            if len(shape) == 2:
                crf = densecrf.DenseCRF2D(shape[1], shape[0], self.labels)
            else:
                crf = densecrf.DenseCRF(points, self.labels)
            crf.setUnaryEnergy(energy)
            add_kernels(crf)
            return np.array(crf.inference(self.steps))

        return infer

    def _add_image_kernels(self, package: str, shape: tuple[int, ...], how: int) -> Callable:
        from skimage import data, transform

        image = transform.resize(data.coffee(), shape, anti_aliasing=True)
        image = (255 * image).round().astype(np.uint8)
        (near, near_weight), (far, color, weight) = self.near, self.alike

        def add(crf) -> None:
            crf.addPairwiseGaussian(sxy=near, compat=near_weight, normalization=how)
            crf.addPairwiseBilateral(
                sxy=far, srgb=color, rgbim=image, compat=weight, normalization=how
            )

        return add

    def _add_volume_kernels(self, package: str, shape: tuple[int, ...], how: int) -> Callable:
        utils = importlib.import_module(f"{package}.utils")
        volume = noisy_volume(shape, self.channels)
        (near, near_weight), (far, color, weight) = self.near, self.alike

        def compat(penalty: float) -> float | np.ndarray:
            other = (1 - np.eye(self.labels)) * penalty
            return other.astype(np.float32) if self.matrix else penalty

        def add(crf) -> None:
            position = utils.create_pairwise_gaussian((near,) * 3, shape)
            crf.addPairwiseEnergy(position, compat=compat(near_weight), normalization=how)
            colors = (color,) * self.channels
            both = utils.create_pairwise_bilateral((far,) * 3, colors, volume, chdim=0)
            crf.addPairwiseEnergy(both, compat=compat(weight), normalization=how)

        return add


PROGRAMS = [
    Program("SEAM", (375, 500), 21, (3, 3), (80, 13, 10), 10),
    Program("ToCo", (375, 500), 21, (1, 1), (121, 5, 4), 10),
    Program("irn", (375, 500), 3, (3, 3), (50, 5, 10), 10),
    Program("DeepLab", (375, 500), 21, (1, 3), (67, 3, 4), 10),
    Program("STEGO", (320, 320), 27, (1, 3), (67, 3, 4), 10),
    Program("DSS", (300, 400), 2, (3, 3), (60, 5, 5), 1),
    Program("manga-image-translator", (200, 300), 2, (1, 3), (23, 7, 20), 5, normalize=False),
    Program("CutLER", (480, 480), 2, (3, 7), (50, 5, 10), 10),
    Program("CellSeg3D", (64, 64, 64), 2, (1, 5), (10, 5, 10), 5, channels=1, matrix=True),
    Program("like BraTS", (48, 80, 80), 4, (3, 3), (12, 10, 10), 5, channels=2),
    Program("CT (LiTS)", (32, 96, 96), 2, (1, 3), (10, 10, 10), 20, channels=1),
    Program("many labels", (120, 160), 400, (3, 3), (80, 13, 10), 5),
]


def smooth_energies(labels: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return energies ``[L, N]`` of random probabilities that are smooth in space."""
    from scipy.ndimage import zoom

    coarse = np.random.default_rng(0).standard_normal((labels, *(4,) * len(shape)))
    fine = 2 * np.stack([zoom(each, [size / 4 for size in shape], order=1) for each in coarse])
    probability = np.exp(fine - fine.max(0))
    probability = np.clip(probability / probability.sum(0), 1e-5, None)
    return np.ascontiguousarray(-np.log(probability).reshape(labels, -1).astype(np.float32))


def noisy_volume(shape: tuple[int, ...], channels: int) -> np.ndarray:
    """Return a smooth random volume ``[C, ...]`` with values of 0 to 255 and some noise."""
    from scipy.ndimage import gaussian_filter

    rng = np.random.default_rng(0)
    volume = gaussian_filter(rng.standard_normal((channels, *shape)), (0, 4, 4, 4))
    noise = rng.normal(0, 3, volume.shape)
    return (40 * volume / volume.std() + 128 + noise).clip(0, 255).astype(np.float32)


def programs(quick: bool = False) -> None:
    """Time all programs on one thread, and compare their marginals."""
    rows = []
    for program in PROGRAMS:
        contenders = {"ours": program.inference(OURS, quick)}
        if peers.has(PEER):
            contenders["peer"] = program.inference(PEER, quick)
        with threads(1):
            time = in_turn(contenders, 1 if quick else 5, once_on_processor)
            results = [call() for call in contenders.values()]
        peer = time.get("peer")
        size, steps = " x ".join(map(str, program.size(quick))), str(program.steps)
        found = [ms(peer) if peer else "not installed", ms(time["ours"])]
        apart = f"{np.abs(results[0] - results[-1]).max():.0e}" if peer else ""
        rows.append(
            [
                program.name,
                size,
                str(program.labels),
                steps,
                *found,
                ratio(time["ours"], peer),
                apart,
            ]
        )
    columns = ["program", "size", "labels", "steps", "pydensecrf ms", "ours", "÷ peer", "apart"]
    table("Programs of public projects, processor time on one thread", columns, rows)
