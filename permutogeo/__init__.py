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

from typing import TYPE_CHECKING, Any

from permutogeo._version import __version__

if TYPE_CHECKING:
    import permutogeo.datasets as datasets
    from permutogeo import (
        cluster,
        compat,
        data,
        denoising,
        distributed,
        functional,
        image,
        models,
        nn,
        ops,
        solvers,
        tiles,
        train,
        transforms,
        viz,
        weights,
    )
    from permutogeo.lattice import Incidence, Lattice, ScaleWarning, suggest_scale
    from permutogeo.lattice.warmup import warmup
    from permutogeo.ops.stencils import stencil
    from permutogeo.runtime.memory import get_workspace, set_workspace

# Loaded on first use, so that the command line starts before torch does.
_NAMES = {
    "Incidence": "permutogeo.lattice",
    "Lattice": "permutogeo.lattice",
    "ScaleWarning": "permutogeo.lattice",
    "get_workspace": "permutogeo.runtime.memory",
    "set_workspace": "permutogeo.runtime.memory",
    "stencil": "permutogeo.ops.stencils",
    "suggest_scale": "permutogeo.lattice",
    "warmup": "permutogeo.lattice.warmup",
}
_MODULES = (
    "cluster",
    "compat",
    "data",
    "datasets",
    "denoising",
    "distributed",
    "functional",
    "image",
    "models",
    "nn",
    "ops",
    "solvers",
    "tiles",
    "train",
    "transforms",
    "viz",
    "weights",
)

__all__ = [
    "Incidence",
    "Lattice",
    "ScaleWarning",
    "__version__",
    "cluster",
    "compat",
    "data",
    "datasets",
    "denoising",
    "distributed",
    "functional",
    "get_workspace",
    "image",
    "models",
    "nn",
    "ops",
    "set_workspace",
    "solvers",
    "stencil",
    "suggest_scale",
    "tiles",
    "train",
    "transforms",
    "viz",
    "warmup",
    "weights",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _NAMES:
        value = getattr(import_module(_NAMES[name]), name)
    elif name in _MODULES:
        value = import_module(f"permutogeo.{name}")
    else:
        raise AttributeError(f"module 'permutogeo' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def _map_checkout() -> None:
    """Make the folders beside the package importable as ``permutogeo.kernels`` and so on.

    A wheel has them inside the package; a checkout on ``sys.path`` needs this.
    """
    import sys
    from importlib.util import spec_from_file_location
    from pathlib import Path

    root = Path(__file__).resolve().parent.parent
    folders = {f"permutogeo.{name}": root / name for name in ("benchmarks", "datasets", "kernels")}
    if not all((folder / "__init__.py").is_file() for folder in folders.values()):
        return

    class CheckoutFinder:
        """Finds the three packages that stand beside the package in a checkout."""

        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
            if name not in folders:
                return None
            location = folders[name] / "__init__.py"
            return spec_from_file_location(
                name, location, submodule_search_locations=[str(folders[name])]
            )

    # First, before an installed copy of the package.
    sys.meta_path.insert(0, CheckoutFinder)


_map_checkout()
