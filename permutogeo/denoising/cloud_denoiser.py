"""Point cloud denoiser: noise estimate, outlier removal, and stages of mixed local fits."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from permutogeo.checks import check_finite, check_parameters
from permutogeo.data.require import is_point_attribute, require_pos
from permutogeo.denoising.cloud_noise import estimate_noise, find_outliers
from permutogeo.denoising.cloud_stage import Candidates, CloudStage, make_candidates
from permutogeo.denoising.cloud_trust import displacement_trust, one_sheet
from permutogeo.denoising.local_fits import neighbor_tree
from permutogeo.weights import Pretrained

# Part of the noise that is left before each stage, which gives the size of its neighborhoods.
LEFT = (1.0, 0.5, 0.3)
# Clouds of fewer distinct points are returned as they are.
LEAST_POINTS = 16
# Noise below this many spacings is rounding, and no reason to move a point.
LEAST_NOISE = 1e-3
# Longest displacement, in standard deviations of the noise.
LONGEST = 4.5
# Runs at falling noise levels, as long as displacements come from two sheets.
TRIALS = 3


OnReport = Callable[["CloudReport"], None]


@dataclass(frozen=True)
class CloudReport:
    """Noise estimate of a cloud, and the action taken.

    Args:
        points: Number of points of the input.
        removed: Number of outliers that were removed.
        noise: Estimated standard deviation of the noise, in units of the cloud.
        spacing: Side of the square of surface that a point has to itself.
        moved: Root mean square displacement.
        action: ``"denoised"``, or why the cloud was left alone.
    """

    points: int
    removed: int = 0
    noise: float = 0.0
    spacing: float = 0.0
    moved: float = 0.0
    action: str = "denoised"

    def as_dict(self) -> dict[str, object]:
        """Return the fields by name."""
        return asdict(self)

    def __str__(self) -> str:
        relative = self.noise / self.spacing if self.spacing else 0.0
        parts = [f"noise {self.noise:.3g} ({relative:.2f} spacings)"] if self.spacing else []
        parts.append(self.action)
        if self.removed:
            parts.append(f"{self.removed} outlier{'s' * (self.removed > 1)} removed")
        return ", ".join(parts)


class CloudDenoiser(Pretrained):
    r"""Denoising of point clouds by local quadrics, mixed by a small network.

    The standard deviation of the noise is estimated from the cloud and gives the sizes of the
    neighborhoods. In each of three stages, a plane and quadrics ("Estimating differential
    quantities using polynomial fitting of osculating jets", Cazals and Pouget, 2005) are fitted to
    neighborhoods of three sizes, by least squares, with robust weights, and with weights by the
    agreement of unoriented normals :math:`(n_i^\top n_j)^2`. Each fit :math:`c` proposes a
    displacement :math:`d_{ic}` of point :math:`i`; further candidates are the means of the nearest
    points and the direction away from them, which keep the density even. A network :math:`w` mixes
    them,

    .. math::
        x_i \leftarrow x_i + \sum_c w_c\big((d_{ia}^\top d_{ib})_{a \le b}, s_i\big)\, d_{ic},

    where :math:`s_i` are residuals, extents and curvatures of the fits. It sees only invariants:
    the result turns, moves and scales with the cloud, and normals need no orientation.

    Args:
        hidden_channels: Width of the networks.

    Shapes:
        - ``data.pos``: :math:`(N, 3)`

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> sphere = torch.nn.functional.normalize(torch.randn(2000, 3), dim=1)
        >>> noisy = Data(pos=sphere + 0.02 * torch.randn(2000, 3))
        >>> result = CloudDenoiser.from_pretrained()(noisy)
        >>> bool((result.pos.norm(dim=1) - 1).abs().mean() < 0.01)
        True
    """

    pretrained: ClassVar = {"default": "cloud_denoiser"}

    def __init__(self, hidden_channels: int = 64):
        super().__init__()
        self.hidden_channels = hidden_channels
        self.stages = torch.nn.ModuleList(
            CloudStage(number > 0, hidden_channels) for number in range(len(LEFT))
        )

    @property
    def _stages(self) -> list[CloudStage]:
        return [stage for stage in self.stages if isinstance(stage, CloudStage)]

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        for stage in self._stages:
            stage.reset_parameters()

    @torch.no_grad()
    def forward(
        self,
        data: Data,
        strength: float = 1.0,
        iterations: int | None = None,
        *,
        remove_outliers: bool = True,
        on_progress: Callable[[float], None] | None = None,
        on_report: OnReport | None = None,
    ) -> Data:
        """Return a denoised copy; a batch is denoised cloud by cloud.

        Args:
            data: Positions. Point attributes of removed outliers are removed too; normals are
                estimated again on the sides that they had; all other attributes are kept.
            strength: Below 1, the fraction of the displacement that is applied; above 1, the
                factor by which the noise is taken to be larger.
            iterations: Number of stages; the last stage is repeated beyond their number.
            remove_outliers: Whether points far from all others are removed.
            on_progress: Called with the completed fraction in [0, 1] after each stage.
            on_report: Called with the report of each cloud.
        """
        if isinstance(data, Batch):
            options: dict[str, Any] = {"remove_outliers": remove_outliers, "on_report": on_report}
            parts = [self(part, strength, iterations, **options) for part in data.to_data_list()]
            return Batch.from_data_list(parts)
        progress = on_progress or (lambda fraction: None)
        count = self._check(data, strength, iterations)
        pos = data["pos"]
        local = pos.double() - pos.double().mean(dim=0) if len(pos) else pos.double()
        step, keep, normal, report = self._denoise(
            local, strength, count, remove_outliers, progress
        )
        result = copy.copy(data)
        result.pos = pos + step.to(pos.dtype)
        if normal is not None and data.get("normal") is not None:
            side = (normal * data["normal"].to(normal)).sum(dim=1, keepdim=True) < 0
            result.normal = torch.where(side, -normal, normal).to(data["normal"].dtype)
        if on_report is not None:
            on_report(report)
        return result if report.removed == 0 else _select(result, keep)

    def _denoise(
        self,
        pos: Tensor,
        strength: float,
        count: int,
        remove_outliers: bool,
        progress: Callable[[float], None],
    ) -> tuple[Tensor, Tensor, Tensor | None, CloudReport]:
        """Return displacements, which points stay, normals if any, and a report."""
        total = len(pos)
        step, keep = torch.zeros_like(pos), pos.new_ones(total, dtype=torch.bool)
        # Points at the same place move together.
        place, inverse = torch.unique(pos, dim=0, return_inverse=True)
        if len(place) < LEAST_POINTS:
            action = f"left alone: fewer than {LEAST_POINTS} distinct points"
            return step, keep, None, CloudReport(total, action=action)
        stays = torch.ones(len(place), dtype=torch.bool, device=pos.device)
        if remove_outliers:
            stays = ~find_outliers(place)
        keep = stays[inverse]
        removed = total - int(keep.sum())
        tree = neighbor_tree(place[stays])
        sigma, spacing = estimate_noise(place[stays], tree)
        report = CloudReport(total, removed, sigma, spacing)
        if sigma <= LEAST_NOISE * spacing:
            report = replace(report, action="left alone: no noise found")
        if sigma <= LEAST_NOISE * spacing or count == 0 or strength == 0.0:
            return step, keep, None, report
        trust = displacement_trust(place[stays], tree, sigma, spacing)
        if not bool(trust.any()):
            action = "left alone: too coarse or too thin to tell noise from shape"
            return step, keep, None, replace(report, action=action)
        level = sigma / spacing * max(strength, 1.0)
        start = (place[stays] / spacing).float()
        moved, normal, part = self._run_noise(start, level, count, progress)
        report, level = replace(report, noise=part * sigma), part * level
        shift = (moved - start).double()
        length = torch.linalg.vector_norm(shift, dim=1, keepdim=True)
        shift *= (LONGEST * level / length.clamp(min=1e-12)).clamp(max=1.0)
        shift *= spacing * min(strength, 1.0) * trust.unsqueeze(1)
        report = replace(report, moved=float(shift.square().sum(dim=1).mean().sqrt()))
        step_of, normal_of = torch.zeros_like(place), torch.zeros_like(place)
        step_of[stays], normal_of[stays] = shift, normal.double()
        return step_of[inverse], keep, normal_of[inverse], report

    def _run_noise(
        self, pos: Tensor, level: float, count: int, progress: Callable[[float], None]
    ) -> tuple[Tensor, Tensor, float]:
        """Run the stages, and again for less noise if two sheets became one.

        Returns:
            Denoised positions and unoriented normals ``[N, 3]``, and the part of the noise level
            that was used.
        """
        part, start = 1.0, 0.0
        for trial in range(TRIALS):
            moved, normal = self.run(pos, part * level, count, _from(start, progress))
            fits = one_sheet(pos, moved, normal)
            if fits == 1.0 or trial + 1 == TRIALS:
                break
            part *= 0.5 + 0.5 * fits
            start += (1 - start) * count / (count + 1)
        return moved, normal, part

    def run(
        self,
        pos: Tensor,
        sigma: float,
        count: int = len(LEFT),
        progress: Callable[[float], None] = lambda fraction: None,
    ) -> tuple[Tensor, Tensor]:
        """Run ``count`` stages on positions ``[N, 3]`` in units of the spacing.

        Returns:
            Denoised positions and unoriented normals, ``[N, 3]`` each.
        """
        normal: Tensor | None = None
        for done in range(count):
            number = min(done, len(LEFT) - 1)
            found = self.candidates(number, pos, sigma, normal)
            pos = pos + self._stages[number].mix(found)
            normal = found.normal
            progress((done + 1) / (count + 1))
        assert normal is not None
        return pos, normal

    def candidates(
        self, number: int, pos: Tensor, sigma: float, normal: Tensor | None
    ) -> Candidates:
        """Return the candidates of a stage for positions in units of the spacing."""
        known = normal if number > 0 else None
        return make_candidates(pos, neighbor_tree(pos), sigma, LEFT[number], known)

    def _check(self, data: Data, strength: float, iterations: int | None) -> int:
        """Raise unless the input and the options are valid; return the number of stages."""
        pos = require_pos(self, data, dims=(3,))
        check_parameters(self, pos, "'pos'")
        check_finite(self, "pos", pos, "; RepairMesh drops such rows")
        if not 0.0 <= strength < math.inf:
            raise ValueError(f"CloudDenoiser: Expected a finite 'strength' >= 0 (got {strength})")
        if iterations is not None and iterations < 0:
            raise ValueError(f"CloudDenoiser: Expected 'iterations' >= 0 (got {iterations})")
        return len(LEFT) if iterations is None else iterations

    def __repr__(self) -> str:
        return f"{type(self).__name__}(hidden_channels={self.hidden_channels})"


def denoise_cloud(
    data: Data,
    strength: float,
    iterations: int | None,
    model: object,
    on_progress: Callable[[float], None],
    on_report: OnReport | None,
) -> Data:
    """Return a denoised cloud, by the shipped weights unless ``model`` is a cloud denoiser."""
    if not isinstance(model, CloudDenoiser):
        model = CloudDenoiser.from_pretrained()
        if isinstance(data.get("pos"), Tensor):
            model = model.to(data["pos"].device)
    result: Data = model(data, strength, iterations, on_progress=on_progress, on_report=on_report)
    on_progress(1.0)
    return result


def _from(start: float, progress: Callable[[float], None]) -> Callable[[float], None]:
    """Return a function that reports fractions of the rest after ``start``."""
    return lambda fraction: progress(start + (1 - start) * fraction)


def _select(data: Data, keep: Tensor) -> Data:
    """Return the data with only some points."""
    count = len(keep)
    for name, value in list(data.to_dict().items()):
        if is_point_attribute(name, value, count):
            data[name] = value[keep]
    return data
