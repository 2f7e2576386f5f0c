"""Bilateral features from point attributes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.data.require import missing_attribute, require
from permutogeo.lattice import suggest_scale

_AUTO = "auto"
_COLORS = ("intensity", "rgb", "lab")
# sRGB (ITU-R BT.709 primaries) to CIE XYZ, and the white point D65 (2° observer).
_RGB_TO_XYZ = (
    (0.412453, 0.357580, 0.180423),
    (0.212671, 0.715160, 0.072169),
    (0.019334, 0.119193, 0.950227),
)
_WHITE = (0.95047, 1.0, 1.08883)
_LUMA = (0.299, 0.587, 0.114)


class BilateralFeature(BaseTransform):
    r"""Concatenates point attributes, each divided by its bandwidth, to ``feature [N, d]``:

    .. math::
        \mathbf{f}_i = \left( \mathbf{p}_i / \sigma_p,\; \mathbf{c}_i / \sigma_c,\; \ldots \right)

    in the order of the arguments. ``intensity``, ``rgb`` and ``lab`` are computed from the colors
    ``x`` in [0, 1] (L* is in [0, 100]) unless the data have an attribute of that name, such as the
    intensity of LiDAR points.

    Args:
        attr: Name of the result.
        sigmas: Bandwidth of each attribute (``pos``, ``intensity``, ``rgb``, ``lab``, ``normal``,
            ``intrinsic``, or any other name): one number, or one for each column. One attribute may
            be ``"auto"``: its bandwidth is chosen for each sample so that the lattice has three
            points per vertex, by :func:`permutogeo.suggest_scale`. For one bandwidth for a whole
            data set, call that function on the data set.

    Example:
        >>> import torch
        >>> from permutogeo.transforms import BilateralFeature, ImageToPoints
        >>> data = ImageToPoints()(torch.rand(3, 4, 6))
        >>> BilateralFeature(pos=16.0, rgb=0.1)(data).feature.shape
        torch.Size([24, 5])
        >>> BilateralFeature(pos="auto")(data).feature.shape
        torch.Size([24, 2])
    """

    def __init__(self, attr: str = "feature", /, **sigmas: float | Sequence[float] | str) -> None:
        if not sigmas:
            raise ValueError("BilateralFeature: Expected at least one sigma, as in pos=16.0")
        # Plain numbers instead of those of NumPy and torch, for the repr.
        sigmas = {k: v.tolist() if hasattr(v, "tolist") else v for k, v in sigmas.items()}
        automatic = [name for name, sigma in sigmas.items() if isinstance(sigma, str)]
        if len(automatic) > 1:
            expected = f"at most one sigma to be {_AUTO!r}"
            raise ValueError(f"BilateralFeature: Expected {expected} (got {', '.join(automatic)})")
        for name, sigma in sigmas.items():
            if isinstance(sigma, str) and sigma == _AUTO:
                continue
            values = [sigma] if isinstance(sigma, (int, float, str)) else list(sigma)
            if not values or not all(_is_positive(value) for value in values):
                expected = f"positive finite sigmas or {_AUTO!r} for '{name}'"
                raise ValueError(f"BilateralFeature: Expected {expected} (got {sigma})")
        self.attr = attr
        self.sigmas = sigmas

    def _color(self, data: Data, name: str) -> Tensor:
        if not isinstance(data.get("x"), Tensor):
            raise missing_attribute(self, f"{name}' or colors 'x", data)
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

    def _part(self, data: Data, name: str, sigma: float | Sequence[float] | str) -> Tensor:
        """Return an attribute divided by its bandwidth, or as it is for ``"auto"``."""
        if name in _COLORS and name not in data:
            value = self._color(data, name)
        else:
            value = require(self, data, name)
        value = value.unsqueeze(1) if value.dim() == 1 else value
        if value.dim() != 2:
            expected = f"'{name}' of shape [N, d]"
            raise ValueError(f"BilateralFeature: Expected {expected} (got {list(value.shape)})")
        value = value if value.is_floating_point() else value.float()
        if isinstance(sigma, str):
            return value
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
        for name in [name for name, sigma in self.sigmas.items() if isinstance(sigma, str)]:
            rest = [part for other, part in parts.items() if other != name]
            fixed = torch.cat(rest, dim=1) if rest else None
            parts[name] = parts[name] * suggest_scale(parts[name], fixed=fixed)
        data[self.attr] = torch.cat(list(parts.values()), dim=1)
        return data

    def __repr__(self) -> str:
        first = [] if self.attr == "feature" else [repr(self.attr)]
        rest = [f"{name}={sigma!r}" for name, sigma in self.sigmas.items()]
        return f"{type(self).__name__}({', '.join(first + rest)})"


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value) and value > 0


def rgb_to_lab(rgb: Tensor) -> Tensor:
    """Convert sRGB in [0, 1] to CIE L*a*b*, ``[..., 3]``; L is in [0, 100]."""
    linear = torch.where(
        rgb > 0.04045, ((rgb.clamp(min=0.04045) + 0.055) / 1.055) ** 2.4, rgb / 12.92
    )
    xyz = linear @ linear.new_tensor(_RGB_TO_XYZ).t() / linear.new_tensor(_WHITE)
    root = xyz.clamp(min=0.008856) ** (1.0 / 3.0)
    f = torch.where(xyz > 0.008856, root, 7.787 * xyz + 16.0 / 116.0)
    x, y, z = f.unbind(dim=-1)
    return torch.stack([116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)], dim=-1)


def rgb_to_intensity(rgb: Tensor) -> Tensor:
    """Convert RGB ``[..., 3]`` to the luma of Rec. 601 ``[..., 1]``."""
    return (rgb * rgb.new_tensor(_LUMA)).sum(dim=-1, keepdim=True)
