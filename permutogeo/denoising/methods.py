"""The public function :func:`denoise` and its three methods."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable

from torch import Tensor
from torch_geometric.data import Data

from permutogeo.checks import check_choice, check_finite
from permutogeo.data.geometry import mean_edge_length, smooth_by_normals, update_normals
from permutogeo.data.require import require_mesh
from permutogeo.denoising.cloud_denoiser import CloudDenoiser, CloudReport, denoise_cloud
from permutogeo.denoising.mesh_denoiser import MeshDenoiser
from permutogeo.denoising.report import DenoiseReport
from permutogeo.denoising.safety import summarize
from permutogeo.functional import gaussian_filter
from permutogeo.transforms import Displacement, IsomapFeature, SmoothNormals

METHODS = ("learned", "gaussian", "smooth")
# Default number of steps of normal smoothing.
STEPS = 10
# Standard deviation of the filter of displacements, in mean edge lengths.
BANDWIDTH = 2.5

OnProgress = Callable[[float], None]


def denoise(
    data: Data,
    method: str = "learned",
    strength: float = 1.0,
    iterations: int | None = None,
    *,
    model: MeshDenoiser | CloudDenoiser | str | os.PathLike[str] = "default",
    on_progress: OnProgress | None = None,
    on_report: Callable[[DenoiseReport | CloudReport], None] | None = None,
) -> Data:
    r"""Return a denoised copy of a mesh or a point cloud.

    ``"learned"`` is :class:`permutogeo.denoising.MeshDenoiser` for meshes, and
    :class:`permutogeo.denoising.CloudDenoiser` for clouds, which also removes outliers. Parts of a
    mesh in which no noise can be told from shape are left alone.

    ``"gaussian"`` is the bilateral mesh filter of `"Learning Sparse High Dimensional Filters"
    <https://arxiv.org/abs/1503.04949>`_: the displacements of the vertices from a mesh with
    smoothed normals, filtered by a Gaussian over four intrinsic coordinates. It gives back the
    low frequencies that smoothing took: vertices end nearer to the clean ones, by 4 % on the bodies
    of the paper, while normals are those of ``"smooth"``. Use it where positions matter and the
    surface is smooth; it takes longer, and ``"learned"`` is better in both.

    ``"smooth"`` is :class:`permutogeo.transforms.SmoothNormals` alone. Neither
    estimates the noise: both also change a clean mesh.

    Args:
        data: Positions, and faces if it is a mesh. Existing normals, centroids and areas are
            recomputed, all other attributes are kept.
        method: ``"learned"``, ``"gaussian"`` or ``"smooth"``.
        strength: Below 1, the fraction of the displacement that is applied; above 1, the factor by
            which filters are wider and smoothing steps more numerous.
        iterations: Number of stages of the learned cascade, or of smoothing steps.
        model: Model of ``"learned"``: one loaded before (on the device of ``data``), the name of
            weights shipped with the package, or a ``.safetensors`` file written by
            ``permutogeo train denoise``. Load it once to denoise many meshes. Clouds use the
            shipped weights unless it is a :class:`permutogeo.denoising.CloudDenoiser`.
        on_progress: Called with the completed fraction in [0, 1].
        on_report: Called with a :class:`DenoiseReport`, or :class:`CloudReport` for a cloud: the
            noise that was estimated, what was done and what was left alone.

    Example:
        >>> import torch
        >>> from permutogeo.denoising import MeshDenoiser
        >>> from permutogeo.transforms import NormalNoise
        >>> face = torch.tensor([[0, 0, 0, 1], [1, 2, 3, 3], [2, 3, 1, 2]])
        >>> noisy = NormalNoise(0.1)(Data(pos=torch.eye(4)[:, :3], face=face))
        >>> denoise(noisy, model=MeshDenoiser.from_pretrained())
        Data(pos=[4, 3], face=[3, 4])
    """
    check_choice(None, "method", method, METHODS)
    report = on_progress or (lambda fraction: None)
    if method == "learned" and isinstance(data, Data) and data.get("face") is None:
        return denoise_cloud(data, strength, iterations, model, report, on_report)
    if method == "learned":
        if isinstance(model, CloudDenoiser):
            raise ValueError("denoise: Expected a MeshDenoiser for a mesh (got a CloudDenoiser)")
        return _learned(data, strength, iterations, model, report, on_report)
    steps = _check_mesh(data, method, strength, iterations)
    result = copy.copy(data)
    # Centered and in double precision: coordinates may be large, displacements are small.
    center = data["pos"].double().mean(dim=0)
    pos = data["pos"].double() - center
    filter_positions = _gaussian if method == "gaussian" else _smooth
    moved = filter_positions(pos, data["face"], strength, steps, report)
    step = min(strength, 1.0) * (moved - pos)
    result.pos = (pos + step + center).to(data["pos"].dtype)
    update_normals(result)
    if on_report is not None:
        edge = mean_edge_length(pos, data["face"]).clamp(min=1e-300)
        on_report(summarize(method, step / edge))
    report(1.0)
    return result


def _learned(
    data: Data,
    strength: float,
    iterations: int | None,
    model: MeshDenoiser | str | os.PathLike[str],
    report: OnProgress,
    on_report: Callable[[DenoiseReport | CloudReport], None] | None,
) -> Data:
    if not isinstance(model, MeshDenoiser):
        model = MeshDenoiser.from_pretrained(model)
        if isinstance(data.get("pos"), Tensor):
            model = model.to(data["pos"].device)
    total = 1 + (len(model.stages) if iterations is None else iterations)
    done = 0

    def count_stage(*_: object) -> None:
        nonlocal done
        done += 1
        report(min(done / total, 1.0))  # choosing the stages may take one more

    stages = (*model.stages, *model.scan_stages)
    hooks = [stage.register_forward_hook(count_stage) for stage in stages]
    try:
        result: Data = model(data, strength=strength, iterations=iterations, on_report=on_report)
    finally:
        for hook in hooks:
            hook.remove()
    report(1.0)
    return result


def _smooth(pos: Tensor, face: Tensor, strength: float, steps: int, report: OnProgress) -> Tensor:
    return smooth_by_normals(pos, face, steps, on_step=lambda done: report(done / steps))


def _gaussian(pos: Tensor, face: Tensor, strength: float, steps: int, report: OnProgress) -> Tensor:
    edge = float(mean_edge_length(pos, face))
    if edge == 0.0:
        return pos
    smooth = _smooth(pos, face, strength, steps, lambda fraction: report(0.4 * fraction))
    data = Displacement("noisy")(Data(pos=smooth, face=face, noisy=pos))
    sigma = BANDWIDTH * max(strength, 1.0) * edge
    feature = IsomapFeature()(data).intrinsic / sigma
    report(0.8)
    return data.pos + edge * gaussian_filter((data.x / edge).float(), feature.float()).double()


def _check_mesh(data: Data, method: str, strength: float, iterations: int | None) -> int:
    """Raise unless the mesh and the options are valid; return the number of smoothing steps."""
    if not isinstance(data.get("face"), Tensor):
        raise ValueError(
            f"denoise: Expected a mesh for the method '{method}' (got no 'face'); 'learned' also "
            "denoises point clouds"
        )
    pos, _ = require_mesh(SmoothNormals(), data)
    check_finite(None, "pos", pos, "; RepairMesh drops such rows")
    if not 0.0 <= strength < math.inf:
        raise ValueError(f"denoise: Expected a finite 'strength' >= 0 (got {strength})")
    if iterations is not None and iterations < 0:
        raise ValueError(f"denoise: Expected 'iterations' >= 0 (got {iterations})")
    steps = STEPS if iterations is None else iterations
    return round(steps * max(strength, 1.0))
