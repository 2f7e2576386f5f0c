"""Conversion of images to points."""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.data import from_image
from permutogeo.data.require import require
from permutogeo.transforms.random_source import RandomSource


class ImageToPoints(BaseTransform):
    r"""Converts an image to points, see :func:`permutogeo.data.from_image`.

    The image is either the attribute ``attr`` of a :class:`~torch_geometric.data.Data`, a tensor
    :math:`(C, H, W)` that the points replace, or the input itself: a PIL image, an array, a tensor
    or a path.

    Args:
        fraction: Number of points at random continuous positions, relative to the number of
            pixels, with bilinear interpolation.
        superpixels: Approximate number of superpixels.
        compactness: Compactness of the superpixels.
        seed: Seed that gives the same positions at each call.
        generator: Random number generator; by default torch's global one.
        attr: Attribute of :class:`~torch_geometric.data.Data` that holds the image; a boolean
            ``mask`` of shape :math:`(H, W)` in the data selects pixels.

    Example:
        >>> import torch
        >>> from permutogeo.transforms import ImageToPoints
        >>> ImageToPoints(fraction=0.25)(torch.rand(1, 28, 28))
        Data(x=[196, 1], pos=[196, 2], height=28, width=28)
    """

    def __init__(
        self,
        fraction: float | None = None,
        superpixels: int | None = None,
        compactness: float = 10.0,
        seed: int | None = None,
        generator: torch.Generator | None = None,
        attr: str = "image",
    ) -> None:
        self.fraction = fraction
        self.superpixels = superpixels
        self.compactness = compactness
        self.seed = seed
        self.attr = attr
        self._random = RandomSource("ImageToPoints", seed, generator)

    def forward(self, data: Any) -> Data:
        image, mask = data, None
        if isinstance(data, Data):
            image = require(self, data, self.attr)
            if image.dim() == 4 and image.size(0) == 1:  # the batch dimension of datasets
                image = image[0]
            mask = data.get("mask")
        points = from_image(
            image,
            mask=mask,
            fraction=self.fraction,
            superpixels=self.superpixels,
            compactness=self.compactness,
            generator=self._random(),
        )
        if not isinstance(data, Data):
            return points
        for name in {self.attr, "mask"} & set(data.keys()):
            del data[name]
        for name, value in points.to_dict().items():
            data[name] = value.to(image.device) if torch.is_tensor(value) else value
        return data

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(fraction={self.fraction}, superpixels={self.superpixels}, "
            f"seed={self.seed})"
        )
