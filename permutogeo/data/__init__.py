"""Images, meshes and point clouds as :class:`torch_geometric.data.Data`, and back."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from permutogeo.data.image import from_image, to_image
    from permutogeo.data.mesh import from_mesh, to_mesh
    from permutogeo.data.point_cloud import from_point_cloud, to_point_cloud

__all__ = [
    "from_image",
    "from_mesh",
    "from_point_cloud",
    "to_image",
    "to_mesh",
    "to_point_cloud",
]

# Imported on first use: the command line checks paths with `data.files` before it loads torch.
_MODULES = {name: f"permutogeo.data.{name.partition('_')[2]}" for name in __all__}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'permutogeo.data' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
