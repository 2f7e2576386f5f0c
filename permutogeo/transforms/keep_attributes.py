"""Selection of attributes."""

from __future__ import annotations

from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from permutogeo.data.require import missing_attribute


class KeepAttributes(BaseTransform):
    r"""Drops all attributes except the named ones.

    PyG batches data with equal attributes. An image (2-D positions, height, width) and a mesh (3-D
    positions, faces) fit into one batch once each has only the inputs of a model.

    Args:
        names: Attributes to keep; all must be present.

    Example:
        >>> import torch
        >>> from permutogeo.transforms import BilateralFeature, ImageToPoints, KeepAttributes
        >>> data = BilateralFeature(pos=2.0)(ImageToPoints()(torch.rand(3, 4, 6)))
        >>> KeepAttributes("x", "feature")(data)
        Data(x=[24, 3], feature=[24, 2])
    """

    def __init__(self, *names: str) -> None:
        if not names:
            raise ValueError("KeepAttributes: Expected at least one name")
        self.names = names

    def forward(self, data: Data) -> Data:
        for name in self.names:
            if name not in data:
                raise missing_attribute(self, name, data)
        for name in data.to_dict():
            if name not in self.names:
                del data[name]
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.names))})"
