"""Open3D's and trimesh's smoothers of meshes, and the settings that a search goes through."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch_geometric.data import Data

from permutogeo.data import to_mesh

Smoother = Callable[[], torch.Tensor]
ITERATIONS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 80, 120)
QUICK_ITERATIONS = (2, 10)


def open3d_smoothers(mesh: Data, steps: tuple[int, ...]) -> Iterator[tuple[str, Smoother]]:
    """Laplacian and Taubin, which Open3D weighs by inverse edge lengths."""
    geometry = to_mesh(mesh, kind="open3d")
    filters = {
        "Laplacian .5": lambda n: geometry.filter_smooth_laplacian(n, 0.5),
        "Laplacian .2": lambda n: geometry.filter_smooth_laplacian(n, 0.2),
        "Taubin .5 -.53": lambda n: geometry.filter_smooth_taubin(n, 0.5, -0.53),
    }
    for name, smooth in filters.items():
        for count in steps:
            yield (
                f"Open3D {name} x{count}",
                lambda smooth=smooth, count=count: torch.from_numpy(
                    np.asarray(smooth(count).vertices).copy()
                ),
            )


def trimesh_smoothers(mesh: Data, steps: tuple[int, ...]) -> Iterator[tuple[str, Smoother]]:
    """Laplacian, Taubin and Humphrey, with one operator for all."""
    import trimesh

    start = to_mesh(mesh)
    operator = trimesh.smoothing.laplacian_calculation(start)
    filters = {
        "Taubin .5 .53": ("filter_taubin", {"lamb": 0.5, "nu": 0.53}),
        "Humphrey .1 .5": ("filter_humphrey", {"alpha": 0.1, "beta": 0.5}),
        "Humphrey .02 .3": ("filter_humphrey", {"alpha": 0.02, "beta": 0.3}),
    }
    for name, (function, options) in filters.items():
        for count in steps:

            def smooth(function=function, options=options, count=count) -> torch.Tensor:
                moved = start.copy()
                apply = getattr(trimesh.smoothing, function)
                apply(moved, iterations=count, laplacian_operator=operator, **options)
                return torch.from_numpy(np.asarray(moved.vertices).copy())

            yield f"trimesh {name} x{count}", smooth
