"""Mesh smoothers of Open3D and trimesh, over the settings of a parameter search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from permutogeo.data import to_mesh

Smoother = Callable[[], torch.Tensor]
ITERATIONS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 80, 120)
QUICK_ITERATIONS = (2, 10)


def open3d_smoothers(mesh: Data, steps: tuple[int, ...]) -> Iterator[tuple[str, Smoother]]:
    """Yield Laplacian and Taubin smoothing, weighted by inverse edge lengths."""
    geometry = to_mesh(mesh, kind="open3d")
    filters = {
        "Laplacian .5": lambda n: geometry.filter_smooth_laplacian(n, 0.5),
        "Laplacian .2": lambda n: geometry.filter_smooth_laplacian(n, 0.2),
        "Taubin .5 -.53": lambda n: geometry.filter_smooth_taubin(n, 0.5, -0.53),
    }
    for name, smooth in filters.items():
        for count in steps:
            yield f"Open3D {name} x{count}", partial(_vertices, partial(smooth, count))


def trimesh_smoothers(mesh: Data, steps: tuple[int, ...]) -> Iterator[tuple[str, Smoother]]:
    """Yield Taubin and Humphrey smoothing, with one Laplacian operator for all settings."""
    import trimesh

    start = to_mesh(mesh)
    operator = trimesh.smoothing.laplacian_calculation(start)
    filters: dict[str, tuple[str, dict[str, float]]] = {
        "Taubin .5 .53": ("filter_taubin", {"lamb": 0.5, "nu": 0.53}),
        "Humphrey .1 .5": ("filter_humphrey", {"alpha": 0.1, "beta": 0.5}),
        "Humphrey .02 .3": ("filter_humphrey", {"alpha": 0.02, "beta": 0.3}),
    }
    for name, (function, options) in filters.items():
        for count in steps:
            settings = {**options, "iterations": count, "laplacian_operator": operator}
            yield f"trimesh {name} x{count}", partial(_smoothed, start, function, settings)


def default_smoothers(mesh: Data) -> Iterator[tuple[str, Smoother]]:
    """Yield the smoothers at their defaults: one iteration in Open3D, ten in trimesh."""
    geometry, start = to_mesh(mesh, kind="open3d"), to_mesh(mesh)
    yield "Open3D Laplacian", partial(_vertices, geometry.filter_smooth_laplacian)
    yield "Open3D Taubin", partial(_vertices, geometry.filter_smooth_taubin)
    for name in ("laplacian", "taubin", "humphrey"):
        yield f"trimesh {name.capitalize()}", partial(_smoothed, start, f"filter_{name}", {})


def _vertices(smooth: Callable[[], Any]) -> torch.Tensor:
    return torch.from_numpy(np.array(smooth().vertices))


def _smoothed(start: Any, function: str, settings: dict[str, Any]) -> torch.Tensor:
    """Return the vertices of a copy that trimesh smooths in place."""
    import trimesh

    return _vertices(lambda: getattr(trimesh.smoothing, function)(start.copy(), **settings))
