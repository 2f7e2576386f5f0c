"""Images as points."""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.data import from_image
from permutogeo.transforms._random import RandomSource
from permutogeo.transforms._require import require


class ImageToPoints(BaseTransform):
    r"""Turns an image into points, see :func:`permutogeo.data.from_image`.

    The image is the attribute ``attr`` of a :class:`~torch_geometric.data.Data`, a tensor
    :math:`(C, H, W)` which the points replace; or the input itself: a PIL image, an array, a
    tensor or a path, so that it also serves datasets of images.

    Args:
        fraction: Draw this fraction of the number of pixels at random continuous positions, with
            bilinear interpolation.
        superpixels: About how many superpixels to make.
        compactness: Of the superpixels.
        seed: Draw the same positions at each call.
        generator: The random numbers; by default torch's own.
        attr: The attribute of :class:`~torch_geometric.data.Data` that holds the image; a boolean
            ``mask`` beside it of shape :math:`(H, W)` chooses its pixels.

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
            if image.dim() == 4 and image.size(0) == 1:  # datasets keep it so, to batch it
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
