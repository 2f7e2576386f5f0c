"""Point cloud smoothers that the cloud denoiser is compared with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor
from torch_geometric.data import Data

from permutogeo.data import from_point_cloud, to_point_cloud
from permutogeo.data.open3d_loader import load_open3d

Smoother = Callable[[Tensor], Tensor]
# Neighbors of a jet: CGAL's recommendation for jet smoothing.
JET_NEIGHBORS = 24


def smoothers() -> dict[str, Smoother]:
    """Return smoothers by name, at their recommended settings, for clouds in the unit sphere."""
    return {
        "jet, 24 neighbors": lambda pos: jet_smoothing(pos, JET_NEIGHBORS),
        "jet, 100 neighbors": lambda pos: jet_smoothing(pos, 100),
        "Open3D MLS": lambda pos: _open3d(pos, "smooth_mls"),
        "Open3D MLS, radius 0.1": lambda pos: _open3d(pos, "smooth_mls", 0.1),
        "Open3D bilateral": lambda pos: _open3d(pos, "smooth_bilateral"),
        "Open3D bilateral, radius 0.1": lambda pos: _open3d(pos, "smooth_bilateral", 0.1),
        "Open3D outlier removal": _statistical,
        "Open3D removal + MLS": lambda pos: _open3d(_statistical(pos), "smooth_mls"),
    }


def jet_smoothing(pos: Tensor, count: int) -> Tensor:
    """Return points projected on the quadrics of their neighbors, one least squares each.

    Plain reference of "Estimating differential quantities using polynomial fitting of osculating
    jets" (Cazals and Pouget, 2005), in double precision and without weights, as in CGAL.
    """
    host = pos.double().numpy()
    index = cKDTree(host).query(host, min(count, len(host)))[1]
    result = np.empty_like(host)
    for start in range(0, len(host), 1000):
        rows = index[start : start + 1000]
        mean = host[rows].mean(axis=1, keepdims=True)
        around = host[rows] - mean
        frame = np.linalg.eigh(around.transpose(0, 2, 1) @ around)[1]
        scale = np.abs(around).max(axis=(1, 2), keepdims=True) + 1e-300
        height, u, v = np.moveaxis(around @ frame / scale, 2, 0)
        basis = np.stack([np.ones_like(u), u, v, u * u, u * v, v * v], 2)
        transposed = basis.transpose(0, 2, 1)
        matrix = transposed @ basis + 1e-9 * np.eye(6)
        fit = np.linalg.solve(matrix, transposed @ height[..., None])[..., 0]
        # The nearest neighbor of a point is the point itself.
        moved = np.stack([(basis[:, 0] * fit).sum(axis=1), u[:, 0], v[:, 0]], 1)
        result[start : start + 1000] = (frame @ (moved[..., None] * scale))[..., 0] + mean[:, 0]
    return torch.from_numpy(result)


def _open3d(pos: Tensor, name: str, radius: float | None = None) -> Tensor:
    """Return points smoothed with the default search, or with all neighbors in a radius."""
    search = load_open3d().geometry.KDTreeSearchParamRadius
    cloud = to_point_cloud(Data(pos=pos), kind="open3d")
    cloud.estimate_normals()
    options = {} if radius is None else {"search_param": search(radius)}
    return from_point_cloud(getattr(cloud, name)(**options), dtype=torch.float64)["pos"]


def _statistical(pos: Tensor) -> Tensor:
    cloud = to_point_cloud(Data(pos=pos), kind="open3d")
    kept = cloud.remove_statistical_outlier(nb_neighbors=20, std_ratio=2.0)[1]
    return pos[torch.tensor(kept)]
