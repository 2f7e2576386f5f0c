"""The learned denoiser: a cascade of normal filters."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from permutogeo.checks import check_finite, check_parameters
from permutogeo.data.geometry import update_normals
from permutogeo.data.require import require_mesh, require_pos, require_single
from permutogeo.denoising.cascade import (
    NUM_CUES,
    SMOOTHING,
    STEPS,
    initial_surface,
    update_surface,
)
from permutogeo.denoising.noise_estimate import CORRELATED, WAVES, roughness
from permutogeo.denoising.normal_filter import NormalStage, Surface
from permutogeo.denoising.patterns import is_even
from permutogeo.denoising.report import DenoiseReport
from permutogeo.denoising.safety import judge, summarize
from permutogeo.denoising.scales import bands, canonical_frame, middle
from permutogeo.denoising.triangles import TriangleElements
from permutogeo.denoising.vertex_update import FEWEST_VERTICES
from permutogeo.weights.pretrained import Pretrained

Bandwidths = Sequence[tuple[float, float | None]]
OnReport = Callable[[DenoiseReport], None]

# Lattices of each stage: bandwidths of (positions in edge lengths, normals). The bandwidths of
# normals shrink as the noise does.
WIDE = ((0.7, None), (1.5, None), (3.0, None), (5.0, None))
BANDWIDTHS: tuple[Bandwidths, ...] = (
    (*WIDE, (1.0, 0.5), (2.0, 0.35), (2.0, 0.7), (4.0, 0.5)),
    (*WIDE, (1.0, 0.3), (1.5, 0.6), (2.5, 0.3), (5.0, 0.3)),
    (*WIDE, (1.0, 0.25), (1.5, 0.5), (2.5, 0.2), (5.0, 0.25)),
)
# Correlation of displacements between neighbors from which noise counts as that of a scanner.
# Independent noise of 0.1 edge lengths or more gave at most -0.02, correlated noise 0.04 or more.
# Displacements that independent noise explains are at most this factor of its estimate.
# A slab of this many faces of a large mesh is enough to tell.
SCAN_CORRELATION, SCAN_FACTOR, SCAN_FACES = 0.035, 1.25, 2**16
# Repetitions of the last stage for scans, and steps of their last vertex update, if displacements
# correlate by the first value at least.
SCAN_REPEATS = 2
SLOW_CORRELATION, SLOW_STEPS = 0.3, 100
# Further steps of the last vertex update of all other meshes.
SETTLING_STEPS = 30


class MeshDenoiser(Pretrained):
    r"""Learned feature-preserving denoising of meshes.

    A cascade of stages, each a learned, locally adaptive bilateral filter of face normals: normals
    are averaged on several permutohedral lattices over positions and normals, and a small network
    mixes the averages of each face from their statistics. After each stage the vertices move to fit
    the filtered normals ("Fast and Effective Feature-Preserving Mesh Denoising", Sun et al., 2007),
    and the next stage filters the resulting mesh. Cascades of learned filters were introduced by
    "Mesh Denoising via Cascaded Normal Regression" (Wang et al., 2016).

    Lengths are in mean edge lengths and the noise level is estimated from the angles between
    adjacent faces: the result is invariant to units, and to rotations up to the orientation of the
    lattices. Point clouds have :class:`permutogeo.denoising.CloudDenoiser`.

    Args:
        bandwidths: Lattices of each stage: pairs of the bandwidths of positions, in edge lengths,
            and of unit normals, or ``None`` for positions alone.
        hidden_channels: Width of the networks.
        local_noise: Whether the networks of meshes are given noise cues of the neighborhood of
            each face beside those of the whole mesh.
        scan_bandwidths: Lattices of each stage for meshes whose noise is correlated between
            neighbors, as that of scanners; by default these are denoised as other meshes.
        scan_hidden_channels: Width of their networks; by default that of meshes.

    Shapes:
        - ``data.pos``: :math:`(V, 3)`, ``data.face``: :math:`(3, F)` int64
        - output: the same data with denoised positions

    Example:

        >>> from permutogeo.transforms import NormalNoise
        >>> tetrahedron = torch.tensor([[0, 0, 0, 1], [1, 2, 3, 3], [2, 3, 1, 2]])
        >>> noisy = NormalNoise(0.1)(Data(pos=torch.eye(4)[:, :3], face=tetrahedron))
        >>> MeshDenoiser.from_pretrained("default")(noisy)
        Data(pos=[4, 3], face=[3, 4])
    """

    pretrained: ClassVar = {"default": "mesh_denoiser"}

    def __init__(
        self,
        bandwidths: Sequence[Bandwidths] = BANDWIDTHS,
        hidden_channels: int = 80,
        local_noise: bool = False,
        scan_bandwidths: Sequence[Bandwidths] = (),
        scan_hidden_channels: int | None = None,
    ):
        super().__init__()
        self.hidden_channels = hidden_channels
        self.local_noise = local_noise
        self.stages = _stages(bandwidths, hidden_channels, NUM_CUES if local_noise else 0)
        self.scan_hidden_channels = scan_hidden_channels or hidden_channels
        self.scan_stages = torch.nn.ModuleList()
        if scan_bandwidths:
            self.scan_stages = _stages(scan_bandwidths, self.scan_hidden_channels, NUM_CUES)

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of the constructor that gave this model."""
        return {
            "bandwidths": [stage.bandwidths for stage in self.stages],
            "hidden_channels": self.hidden_channels,
            "local_noise": self.local_noise,
            "scan_bandwidths": [stage.bandwidths for stage in self.scan_stages],
            "scan_hidden_channels": self.scan_hidden_channels,
        }

    def reset_parameters(self) -> None:
        """Resets all learnable parameters."""
        for stage in [*self.stages, *self.scan_stages]:
            stage.reset_parameters()

    @torch.no_grad()
    def forward(
        self,
        data: Data,
        strength: float = 1.0,
        iterations: int | None = None,
        on_report: OnReport | None = None,
    ) -> Data:
        """Return a denoised copy.

        Args:
            data: Positions and faces. Existing normals, centroids and areas are recomputed, all
                other attributes are kept.
            strength: Below 1, the fraction of the displacement that is applied; above 1, the
                factor by which filters are wider.
            iterations: Number of stages; the last stage is repeated beyond their number.
            on_report: Called with a summary of what was found and done.
        """
        count = self._check(data, strength, iterations)
        result = copy.copy(data)
        result.pos = data["pos"].clone()
        report = DenoiseReport("learned", None, 0.0, 0.0)
        if data["pos"].numel() and count and strength > 0:
            report = self._denoise(result, strength, count)
        update_normals(result)
        if on_report is not None:
            on_report(report)
        return result

    def _denoise(self, data: Data, strength: float, count: int) -> DenoiseReport:
        """Replace the positions of ``data`` within the limits of ``safety``."""
        pos, face = data["pos"], data["face"]
        local = pos.double() - pos.double().mean(dim=0)
        if face.numel() == 0:
            return DenoiseReport("learned", None, 0.0, 0.0)
        frame = canonical_frame(local, face)
        local = local @ frame
        elements = TriangleElements(local, face)
        if elements.spacing == 0.0:
            return DenoiseReport("learned", None, 0.0, 0.0)
        scaled = (local / elements.spacing).float()
        width = max(strength, 1.0)
        estimate = self._normals(elements, scaled, width, count)
        moved = elements.fit(scaled, estimate, elements.steps)
        correlation = elements.update.correlation(moved - scaled)
        # Fine detail also moves together, but not everywhere as the noise of a scanner does.
        if CORRELATED < correlation <= WAVES and not is_even(elements, scaled, moved):
            estimate = self._normals(elements, scaled, width, count, scans=False)
            moved = elements.fit(scaled, estimate, elements.steps)
            correlation = elements.update.correlation(moved - scaled)
        if correlation > SLOW_CORRELATION:
            moved = elements.fit(scaled, estimate, SLOW_STEPS)
        else:
            moved = elements.update.settle(moved, estimate, SETTLING_STEPS)
        moved, judged = judge(elements, scaled, moved, estimate)
        step = (moved - scaled).double() * min(strength, 1.0)
        data.pos = pos + ((step * elements.spacing) @ frame.t()).to(pos.dtype)
        return summarize("learned", step, judged)

    def _normals(
        self,
        elements: TriangleElements,
        pos: Tensor,
        width: float,
        count: int,
        scans: bool = True,
    ) -> Tensor:
        """Return the estimated normals ``[F, 3]``, in units of the local edge length.

        Args:
            elements: The triangles.
            pos: Positions ``[V, 3]`` in units of the spacing.
            width: Factor by which filters are wider.
            count: Number of stages.
            scans: Whether the stages for scans may be chosen.
        """
        total = torch.zeros(elements.face.size(1), 3, device=pos.device)
        for band in bands(elements, pos):
            part = pos[band.vertex] / (band.length * width)
            normal = self.cascade(TriangleElements(part, band.face), part, count, False, scans)[1]
            total.index_add_(0, band.index, band.weight.unsqueeze(1) * normal)
        if not bool(total.any()):
            return self.cascade(elements, pos / width, count, False, scans)[1]
        return torch.nn.functional.normalize(total, dim=1)

    def cascade(
        self,
        elements: TriangleElements,
        pos: Tensor,
        count: int,
        fit: bool = True,
        scans: bool = True,
    ) -> tuple[Tensor, Tensor]:
        """Run ``count`` stages on positions ``[V, 3]`` in units of the spacing.

        Args:
            elements: The triangles.
            pos: Noisy positions.
            count: Number of stages.
            fit: Whether positions are fitted to the normals at the end.
            scans: Whether the stages for scans may be chosen.

        Returns:
            Denoised positions ``[V, 3]`` and the estimated normals ``[F, 3]``.
        """
        surface = initial_surface(elements, pos)
        stages = self._choose_stages(elements, pos, surface) if scans else self.stages
        if stages is self.scan_stages and count == len(self.stages):
            count = len(stages) + SCAN_REPEATS
        for index in range(count):
            stage = stages[min(index, len(stages) - 1)]
            estimate = stage(surface)
            if index + 1 == count:
                surface = replace(surface, estimate=estimate)
            else:
                surface = update_surface(elements, pos, surface, estimate)
        moved = elements.fit(pos, surface.estimate, elements.steps) if fit else pos
        return moved, surface.estimate

    def _choose_stages(
        self, elements: TriangleElements, pos: Tensor, surface: Surface
    ) -> torch.nn.ModuleList:
        """Return the stages for independent noise, or those for noise of scanners.

        The displacements by which the first stage for scanners removes the noise tell: they
        correlate between neighbors if the noise does, and are larger than the estimate of
        independent noise.
        """
        if len(self.scan_stages) == 0 or len(pos) < FEWEST_VERTICES:
            return self.stages
        if elements.face.size(1) > SCAN_FACES:
            vertex, face = middle(pos, elements.face, SCAN_FACES)
            pos = pos[vertex]
            elements = TriangleElements(pos, face)
            surface = initial_surface(elements, pos)
        step = elements.fit(pos, self.scan_stages[0](surface), STEPS) - pos
        part = elements.part[elements.face[0]]
        noise = float(roughness(elements, pos).noise[part].mean())
        is_larger = float(step.square().sum(dim=1).mean().sqrt()) > SCAN_FACTOR * noise
        is_correlated = elements.update.correlation(step) > SCAN_CORRELATION
        return self.scan_stages if is_larger and is_correlated else self.stages

    def _check(self, data: Data, strength: float, iterations: int | None) -> int:
        """Raise unless the input and the options are valid; return the number of stages."""
        require_single(self, data)
        pos = require_pos(self, data, dims=(3,))
        if data.get("face") is None:
            raise ValueError(
                "MeshDenoiser: Expected a mesh (got no 'face'); CloudDenoiser denoises point clouds"
            )
        require_mesh(self, data)
        check_parameters(self, pos, "'pos'")
        check_finite(self, "pos", pos)
        if not 0.0 <= strength < math.inf:
            raise ValueError(f"MeshDenoiser: Expected a finite 'strength' >= 0 (got {strength})")
        if iterations is not None and iterations < 0:
            raise ValueError(f"MeshDenoiser: Expected 'iterations' >= 0 (got {iterations})")
        return len(self.stages) if iterations is None else iterations

    def __repr__(self) -> str:
        stages: Any = self.stages
        sizes = [len(stage.bandwidths) for stage in stages]
        return f"{type(self).__name__}(lattices={sizes}, hidden_channels={self.hidden_channels})"


def _stages(
    bandwidths: Sequence[Bandwidths], hidden_channels: int, num_cues: int = 0
) -> torch.nn.ModuleList:
    if len(bandwidths) == 0 or any(len(stage) < 2 for stage in bandwidths):
        sizes = [len(stage) for stage in bandwidths]
        raise ValueError(f"MeshDenoiser: Expected stages of at least two lattices (got {sizes})")
    return torch.nn.ModuleList(
        NormalStage(stage, len(SMOOTHING), hidden_channels, num_cues) for stage in bandwidths
    )
