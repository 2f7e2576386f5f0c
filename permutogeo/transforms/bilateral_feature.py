"""Features of the bilateral filter, from any mix of attributes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.transforms._color import rgb_to_intensity, rgb_to_lab
from permutogeo.transforms._require import missing, require

COLORS = ("intensity", "rgb", "lab")


class BilateralFeature(BaseTransform):
    r"""Builds ``feature [N, d]``, the coordinates in which a lattice filters.

    Each name is an attribute of the points, each value its bandwidth:

    .. math::
        \mathbf{f}_i = \left( \mathbf{p}_i / \sigma_p,\; \mathbf{c}_i / \sigma_c,\; \ldots \right)

    where the parts follow each other in the order they are given. ``intensity``, ``rgb`` and
    ``lab`` are computed from the colors ``x`` (in [0, 1]; Lab in its own units, L from 0 to 100)
    unless the data have an attribute of that name, as LiDAR points have an intensity.

    Args:
        attr: The name of the result.
        sigmas: The bandwidth of each attribute (``pos``, ``intensity``, ``rgb``, ``lab``,
            ``normal``, ``intrinsic``, or any other name): one number, or one for each column.

    Example:
        >>> import torch
        >>> from permutogeo.transforms import BilateralFeature, ImageToPoints
        >>> data = ImageToPoints()(torch.rand(3, 4, 6))
        >>> BilateralFeature(pos=16.0, rgb=0.1)(data).feature.shape
        torch.Size([24, 5])
    """

    def __init__(self, attr: str = "feature", /, **sigmas: float | Sequence[float]) -> None:
        if not sigmas:
            raise ValueError("BilateralFeature: Expected at least one sigma, as in pos=16.0")
        # Numbers of NumPy and torch become plain ones, for the repr.
        sigmas = {k: v.tolist() if hasattr(v, "tolist") else v for k, v in sigmas.items()}
        for name, sigma in sigmas.items():
            values = [sigma] if isinstance(sigma, (int, float)) else list(sigma)
            if not values or not all(math.isfinite(v) and v > 0 for v in values):
                expected = f"positive finite sigmas for '{name}'"
                raise ValueError(f"BilateralFeature: Expected {expected} (got {sigma})")
        self.attr = attr
        self.sigmas = sigmas

    def _color(self, data: Data, name: str) -> Tensor:
        if not isinstance(data.get("x"), Tensor):
            raise missing(self, f"{name}' or colors 'x", data)
        x = data["x"]
        if x.dim() == 2 and x.size(1) in (1, 2) and name == "intensity":
            return x[:, :1]
        if x.dim() != 2 or x.size(1) not in (3, 4):
            expected = f"colors 'x' of shape [N, 3] for '{name}'"
            raise ValueError(f"BilateralFeature: Expected {expected} (got {list(x.shape)})")
        rgb = x[:, :3] if x.is_floating_point() else x[:, :3].float()
        if name == "rgb":
            return rgb
        return rgb_to_lab(rgb) if name == "lab" else rgb_to_intensity(rgb)

    def _part(self, data: Data, name: str, sigma: float | Sequence[float]) -> Tensor:
        if name in COLORS and name not in data:
            value = self._color(data, name)
        else:
            value = require(self, data, name)
        value = value.unsqueeze(1) if value.dim() == 1 else value
        if value.dim() != 2:
            expected = f"'{name}' of shape [N, d]"
            raise ValueError(f"BilateralFeature: Expected {expected} (got {list(value.shape)})")
        value = value if value.is_floating_point() else value.float()
        divisor = value.new_tensor(sigma)
        if divisor.dim() and len(divisor) != value.size(1):
            expected = f"{value.size(1)} sigmas for '{name}'"
            raise ValueError(f"BilateralFeature: Expected {expected} (got {len(divisor)})")
        return value / divisor

    def forward(self, data: Data) -> Data:
        parts = {name: self._part(data, name, sigma) for name, sigma in self.sigmas.items()}
        rows = {name: len(part) for name, part in parts.items()}
        if len(set(rows.values())) > 1:
            raise ValueError(f"BilateralFeature: Expected equal numbers of rows (got {rows})")
        data[self.attr] = torch.cat(list(parts.values()), dim=1)
        return data

    def __repr__(self) -> str:
        first = [] if self.attr == "feature" else [repr(self.attr)]
        rest = [f"{name}={sigma}" for name, sigma in self.sigmas.items()]
        return f"{type(self).__name__}({', '.join(first + rest)})"
