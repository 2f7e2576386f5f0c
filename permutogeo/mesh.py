"""What is done to meshes and point clouds, as ``permutogeo denoise`` does it.

>>> import torch
>>> from torch_geometric.data import Data
>>> from permutogeo.mesh import denoise
>>> face = torch.tensor([[0, 0, 0, 1], [1, 2, 3, 3], [2, 3, 1, 2]])
>>> denoise(Data(pos=torch.eye(4)[:, :3], face=face), method="smooth")
Data(pos=[4, 3], face=[3, 4])
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable

from torch import Tensor
from torch_geometric.data import Data

from permutogeo.functional import gaussian_filter
from permutogeo.models import MeshDenoiser
from permutogeo.transforms import Displacement, IsomapFeature, SmoothNormals
from permutogeo.transforms._mesh import mean_edge_length, refresh
from permutogeo.transforms._require import require_mesh
from permutogeo.transforms.smooth_normals import smoothed

METHODS = ("learned", "gaussian", "smooth")
# Steps of normal smoothing, where nothing else is asked for.
STEPS = 10
# The standard deviation of the filter of displacements, in mean edges.
BANDWIDTH = 2.5

Progress = Callable[[float], None]


def denoise(
    data: Data,
    method: str = "learned",
    strength: float = 1.0,
    iterations: int | None = None,
    *,
    weights: str | os.PathLike[str] = "default",
    on_progress: Progress | None = None,
) -> Data:
    r"""Removes noise from a mesh or a point cloud.

    ``"learned"`` is :class:`permutogeo.models.MeshDenoiser`, for meshes and clouds.

    ``"gaussian"`` is the bilateral filter of meshes from `"Learning Sparse High Dimensional
    Filters" <https://arxiv.org/abs/1503.04949>`_: the displacements of the vertices from a mesh
    with smoothed normals, filtered over four intrinsic coordinates by a Gaussian.

    ``"smooth"`` is :class:`permutogeo.transforms.SmoothNormals` alone.

    Args:
        data: Positions, and faces if it is a mesh; it stays as it is. Normals, centroids and areas
            that it has are computed anew, all else is kept.
        method: ``"learned"``, ``"gaussian"`` or ``"smooth"``.
        strength: Below 1 the vertices go only that part of their way; above 1 the filters are so
            many times as wide, and normals are smoothed so many times as often.
        iterations: Stages of the learned cascade, or steps of normal smoothing.
        weights: Of ``"learned"``: those that come with the package, or a ``.safetensors`` file of
            ``permutogeo train denoise``.
        on_progress: Called with the part of the work that is done, in [0, 1].

    Example:
        >>> import torch
        >>> from permutogeo.transforms import NormalNoise
        >>> face = torch.tensor([[0, 0, 0, 1], [1, 2, 3, 3], [2, 3, 1, 2]])
        >>> noisy = NormalNoise(0.1)(Data(pos=torch.eye(4)[:, :3], face=face))
        >>> denoise(noisy)
        Data(pos=[4, 3], face=[3, 4])
    """
    if method not in METHODS:
        raise ValueError(f"denoise: Expected 'method' in {', '.join(METHODS)} (got '{method}')")
    report = on_progress or (lambda part: None)
    if method == "learned":
        return _learned(data, strength, iterations, weights, report)
    steps = _steps(data, method, strength, iterations)
    result = copy.copy(data)
    # Small differences of coordinates that may be large.
    center = data["pos"].double().mean(dim=0)
    pos = data["pos"].double() - center
    filter_positions = _gaussian if method == "gaussian" else _smooth
    moved = filter_positions(pos, data["face"], strength, steps, report)
    result.pos = (pos + min(strength, 1.0) * (moved - pos) + center).to(data["pos"].dtype)
    refresh(result)
    report(1.0)
    return result


def _learned(
    data: Data,
    strength: float,
    iterations: int | None,
    weights: str | os.PathLike[str],
    report: Progress,
) -> Data:
    model = MeshDenoiser.from_pretrained(weights)
    if isinstance(data.get("pos"), Tensor):
        model = model.to(data["pos"].device)
    total = 1 + (len(model.stages) if iterations is None else iterations)
    done = 0

    def count(*_: object) -> None:
        nonlocal done
        done += 1
        report(done / total)

    for stage in (*model.stages, *model.point_stages):
        stage.register_forward_hook(count)
    result: Data = model(data, strength=strength, iterations=iterations)
    report(1.0)
    return result


def _smooth(pos: Tensor, face: Tensor, strength: float, steps: int, report: Progress) -> Tensor:
    return smoothed(pos, face, steps, on_step=lambda done: report(done / steps))


def _gaussian(pos: Tensor, face: Tensor, strength: float, steps: int, report: Progress) -> Tensor:
    edge = float(mean_edge_length(pos, face))
    if edge == 0.0:
        return pos
    smooth = _smooth(pos, face, strength, steps, lambda part: report(0.4 * part))
    data = Displacement("noisy")(Data(pos=smooth, face=face, noisy=pos))
    sigma = BANDWIDTH * max(strength, 1.0) * edge
    feature = IsomapFeature()(data).intrinsic / sigma
    report(0.8)
    return data.pos + edge * gaussian_filter((data.x / edge).float(), feature.float()).double()


def _steps(data: Data, method: str, strength: float, iterations: int | None) -> int:
    """How often to smooth normals of an input that is fit for it."""
    if not isinstance(data.get("face"), Tensor):
        raise ValueError(
            f"denoise: Expected a mesh for the method '{method}' (got no 'face'); 'learned' takes "
            "point clouds too"
        )
    require_mesh(SmoothNormals(), data)
    bad = ~data["pos"].isfinite().all(dim=1)
    if bad.any():
        row = int(bad.nonzero()[0])
        got = f"{data['pos'][row].tolist()} in row {row}"
        raise ValueError(f"denoise: Expected finite 'pos' (got {got}); RepairMesh drops such rows")
    if not 0.0 <= strength < math.inf:
        raise ValueError(f"denoise: Expected a finite 'strength' >= 0 (got {strength})")
    if iterations is not None and iterations < 0:
        raise ValueError(f"denoise: Expected 'iterations' >= 0 (got {iterations})")
    steps = STEPS if iterations is None else iterations
    return round(steps * max(strength, 1.0))
