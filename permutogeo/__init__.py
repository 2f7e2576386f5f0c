"""Geometric deep learning on sparse points: learned filters on a permutohedral lattice.

>>> import torch
>>> import permutogeo as pg
>>> feature = torch.rand(1000, 3) * 10
>>> lattice = pg.Lattice.build(feature)
>>> smooth = lattice.slice(lattice.blur(lattice.splat(torch.rand(1000, 8))))
>>> smooth.shape
torch.Size([1000, 8])
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from permutogeo._version import __version__

if TYPE_CHECKING:
    from permutogeo import (
        compat,
        data,
        functional,
        image,
        mesh,
        metrics,
        models,
        nn,
        ops,
        train,
        transforms,
        viz,
    )
    from permutogeo._warmup import warmup
    from permutogeo.incidence import Incidence
    from permutogeo.lattice import Lattice
    from permutogeo.ops.workspace import get_workspace, set_workspace
    from permutogeo.stencils import stencil

# In a checkout that is not installed, kernels/ and datasets/ stand beside the package.
_checkout = Path(__file__).resolve().parent.parent
if all((_checkout / name).is_file() for name in ("pyproject.toml", "kernels/__init__.py")):
    __path__.append(str(_checkout))

# Loaded on first use, so that the command line starts before torch does.
_NAMES = {
    "Incidence": "permutogeo.incidence",
    "Lattice": "permutogeo.lattice",
    "get_workspace": "permutogeo.ops.workspace",
    "set_workspace": "permutogeo.ops.workspace",
    "stencil": "permutogeo.stencils",
    "warmup": "permutogeo._warmup",
}
_MODULES = (
    "compat",
    "data",
    "datasets",
    "functional",
    "image",
    "mesh",
    "metrics",
    "models",
    "nn",
    "ops",
    "train",
    "transforms",
    "viz",
)

__all__ = [
    "Incidence",
    "Lattice",
    "__version__",
    "compat",
    "data",
    "datasets",
    "functional",
    "get_workspace",
    "image",
    "mesh",
    "metrics",
    "models",
    "nn",
    "ops",
    "set_workspace",
    "stencil",
    "train",
    "transforms",
    "viz",
    "warmup",
]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"permutogeo.{name}")
    else:
        raise AttributeError(f"module 'permutogeo' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
