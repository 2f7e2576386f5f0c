"""The guided filter of label probabilities, a baseline of the dense CRF without a lattice."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.data import Data

# Means are at a fourth of the resolution.
_REDUCED = 4


class GuidedFilter:
    """Probabilities as linear functions of the color in each window.

    The `fast guided filter <https://arxiv.org/abs/1505.00996>`_ of He and Sun, which finds the
    functions at a fourth of the resolution.

    Args:
        radius: Of the windows, in pixels.
        contrast: Deviation of colors in [0, 1] that is kept as an edge.
    """

    def __init__(self, radius: float, contrast: float):
        self.size, self.contrast = 2 * round(radius / _REDUCED) + 1, contrast
        self.scale = {"radius": radius, "contrast": contrast}

    def mean(self, x: Tensor) -> Tensor:
        """Return the means over windows of ``[C, H, W]``, cut off at the border."""
        half = self.size // 2
        return functional.avg_pool2d(x, self.size, 1, half, count_include_pad=False)

    def coefficients(self, guide: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        """Return the slopes ``[3, L, H, W]`` and offsets ``[L, H, W]`` of colors and values."""
        both = torch.cat([guide, p])
        mean, shape = self.mean(both), (3, len(both), *guide.shape[1:])
        moment = self.mean((guide[:, None] * both).flatten(0, 1)).view(shape)
        moment = (moment - mean[:3, None] * mean).permute(2, 3, 0, 1)  # [H, W, 3, 3 + L]
        spread = moment[..., :3] + self.contrast**2 * torch.eye(3, dtype=guide.dtype)
        slope = torch.linalg.solve(spread, moment[..., 3:]).permute(2, 3, 0, 1)
        offset = mean[3:] - (slope * mean[:3, None]).sum(0)
        return self.mean(slope.flatten(0, 1)).view(slope.shape), self.mean(offset)

    def __call__(self, data: Data) -> Tensor:
        """Return the filtered probabilities ``[N, L]`` of an image with logits ``unary``."""
        size = (data.height, data.width)
        guide, p = (x.T.reshape(1, -1, *size) for x in (data.x, data.unary.softmax(1)))
        few = [-(-n // _REDUCED) for n in size]
        small = (functional.interpolate(x, few, mode="area")[0] for x in (guide, p))
        slope, offset = self.coefficients(*small)
        slope = functional.interpolate(slope, size, mode="bilinear")
        offset = functional.interpolate(offset[None], size, mode="bilinear")[0]
        return ((slope * guide[0, :, None]).sum(0) + offset).flatten(1).T
