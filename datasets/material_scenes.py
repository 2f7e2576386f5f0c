"""Generated images of textured surfaces with material labels."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

from permutogeo.data import from_image
from permutogeo.datasets.generated_dataset import GeneratedDataset
from permutogeo.datasets.shape_dataset import Transform, split_parts
from permutogeo.datasets.synthetic.textures import TEXTURES
from permutogeo.typing import Array

_PARTS = ("train", "val", "test")
_NOISE = 0.02


class MaterialScenes(GeneratedDataset):
    r"""Images of surfaces of known materials under changing light, generated.

    An image is divided into regions by random curves. Each region has a material, drawn as a
    procedural texture of random color, direction and scale, so that color tells regions apart but
    not materials. Light falls off smoothly, is colored, and casts a shadow with a sharp edge.
    Nothing is read or downloaded. An image is generated at first use and cached.

    Args:
        num_images: Number of images.
        split: ``"train"``, ``"val"`` or ``"test"``, which share no image.
        size: Side length of an image in pixels.
        num_regions: Number of regions.
        seed: Random seed; image :math:`i` depends on the seed, the split and :math:`i`.
        transform: Applied at each access.
        pre_transform: Applied once, when an image is generated.

    Each image has ``x`` :math:`(N, 3)` in [0, 1], ``pos`` :math:`(N, 2)` as (x, y) in pixels,
    ``y`` :math:`(N)`, an index into :attr:`classes`, ``height`` and ``width``.

    Example:
        >>> from permutogeo.datasets import MaterialScenes
        >>> MaterialScenes(2, size=32)[0]
        Data(x=[1024, 3], pos=[1024, 2], height=32, width=32, y=[1024])
    """

    #: Names of the materials, indexed by ``y``.
    classes = tuple(TEXTURES)
    num_classes = len(TEXTURES)
    #: Label of pixels ignored in training and testing; no pixel has it.
    void = 255

    def __init__(
        self,
        num_images: int = 100,
        split: str = "train",
        size: int = 128,
        num_regions: int = 6,
        seed: int = 0,
        transform: Transform | None = None,
        pre_transform: Transform | None = None,
    ):
        super().__init__(num_images, seed, transform, pre_transform)
        owner = type(self).__name__
        if len(split_parts(owner, split)) > 1:
            raise ValueError(f"{owner}: Expected 'split' in train, val, test (got {split!r})")
        if size < 8:
            raise ValueError(f"{owner}: Expected 'size' of 8 or more (got {size})")
        if num_regions < 1:
            raise ValueError(f"{owner}: Expected 'num_regions' of 1 or more (got {num_regions})")
        self.split, self.size, self.num_regions = split, size, num_regions

    def generate(self, index: int) -> Data:
        rng = np.random.default_rng([self.seed, _PARTS.index(self.split), index])
        shape = (self.size, self.size)
        region = _regions(shape, self.num_regions, rng)
        label = rng.integers(0, self.num_classes, self.num_regions)
        image = np.zeros((*shape, 3))
        draw = list(TEXTURES.values())
        for number, material in enumerate(label):
            relief = draw[material](shape, rng)[..., None]
            color = rng.uniform(0.25, 0.8, 3)
            image = np.where((region == number)[..., None], color * (1 + relief), image)
        image = image * _light(shape, rng) + rng.normal(0, _NOISE, image.shape)
        data = from_image(image.clip(0, 1).astype(np.float32))
        data.y = torch.from_numpy(label[region].reshape(-1))
        return data


def _regions(shape: tuple[int, int], count: int, rng: np.random.Generator) -> Array:
    """Return the nearest of ``count`` random centers for each pixel; borders are bent."""
    places = np.indices(shape, dtype=np.float64).reshape(2, -1).T / max(shape)
    wave = rng.uniform(4, 9, (2, 2))
    bent = places + 0.04 * np.sin(places @ wave + rng.uniform(0, 6, 2))
    centers = rng.uniform(0, 1, (count, 2))
    distance = np.linalg.norm(bent[:, None] - centers, axis=-1) - rng.uniform(0, 0.15, count)
    return distance.argmin(1).reshape(shape)


def _light(shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """Return the illumination ``[H, W, 3]``: a colored gradient with a shadow."""
    y, x = np.indices(shape) / max(shape) - 0.5
    slope = rng.normal(0, 0.35, 2)
    shade = 1 + slope[0] * x + slope[1] * y
    angle, offset = rng.uniform(0, 2 * np.pi), rng.uniform(-0.3, 0.3)
    shadow = np.where(np.cos(angle) * x + np.sin(angle) * y > offset, 1.0, rng.uniform(0.5, 0.8))
    color = rng.uniform(0.9, 1.1, 3)
    return (shade * shadow)[..., None].clip(0.2, 1.6) * color
