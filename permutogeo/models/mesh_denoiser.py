"""Denoising of meshes and point clouds by learned filtering of normals."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from permutogeo.models._cascade import SMOOTHING, Pieces, advance, begin
from permutogeo.models._normal_filter import NormalStage
from permutogeo.models._pretrained import Pretrained
from permutogeo.models._samples import Samples
from permutogeo.models._triangles import Triangles
from permutogeo.transforms._mesh import refresh
from permutogeo.transforms._require import require_mesh, require_pos, require_single

Bandwidths = Sequence[tuple[float, float | None]]

# The lattices of each stage: (position in edge lengths, normal); normals get finer as they clear.
WIDE = ((0.7, None), (1.5, None), (3.0, None), (5.0, None))
BANDWIDTHS: tuple[Bandwidths, ...] = (
    (*WIDE, (1.0, 0.5), (2.0, 0.35), (2.0, 0.7), (4.0, 0.5)),
    (*WIDE, (1.0, 0.3), (1.5, 0.6), (2.5, 0.3), (5.0, 0.3)),
    (*WIDE, (1.0, 0.25), (1.5, 0.5), (2.5, 0.2), (5.0, 0.25)),
)


class MeshDenoiser(Pretrained):
    r"""Removes noise from a mesh or a point cloud, and keeps its edges and corners.

    A cascade of stages, each a learned and locally adaptive bilateral filter of face normals: the
    normals are averaged on several permutohedral lattices over positions and normals, and a small
    network mixes the averages, face by face, from what it sees of them. After each stage the
    vertices move to fit the filtered normals ("Fast and Effective Feature-Preserving Mesh
    Denoising", Sun et al., 2007), and the next one sees the mesh so cleared. Cascades of learned
    filters come from "Mesh Denoising via Cascaded Normal Regression" (Wang et al., 2016).

    Lengths count in mean edges, the noise is estimated from the angles between neighboring faces;
    nothing depends on units, and on the orientation only as far as a lattice does. The points of a
    cloud take the part of the faces, with normals from their neighbors and networks of their own.

    Args:
        bandwidths: For each stage the lattices: pairs of the bandwidth of positions in edge
            lengths and of normals, which are of length 1, or ``None`` for positions alone.
        hidden_channels: Width of the networks.

    Shapes:
        - ``data.pos``: :math:`(V, 3)`, ``data.face``: :math:`(3, F)` int64, or none for a cloud
        - output: the same data with other positions

    Example:

        >>> from permutogeo.transforms import NormalNoise
        >>> tetrahedron = torch.tensor([[0, 0, 0, 1], [1, 2, 3, 3], [2, 3, 1, 2]])
        >>> noisy = NormalNoise(0.1)(Data(pos=torch.eye(4)[:, :3], face=tetrahedron))
        >>> MeshDenoiser.from_pretrained("default")(noisy)
        Data(pos=[4, 3], face=[3, 4])
    """

    pretrained: ClassVar = {"default": "mesh_denoiser"}

    def __init__(self, bandwidths: Sequence[Bandwidths] = BANDWIDTHS, hidden_channels: int = 80):
        super().__init__()
        if len(bandwidths) == 0 or any(len(stage) < 2 for stage in bandwidths):
            sizes = [len(stage) for stage in bandwidths]
            raise ValueError(f"MeshDenoiser: Expected stages of two lattices or more (got {sizes})")
        self.hidden_channels = hidden_channels
        self.stages = _stages(bandwidths, hidden_channels)
        self.point_stages = _stages(bandwidths, hidden_channels)

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that make a model of this size."""
        bandwidths = [stage.bandwidths for stage in self.stages]
        return {"bandwidths": bandwidths, "hidden_channels": self.hidden_channels}

    def reset_parameters(self) -> None:
        """Start all stages anew."""
        for stage in [*self.stages, *self.point_stages]:
            stage.reset_parameters()

    @torch.no_grad()
    def forward(self, data: Data, strength: float = 1.0, iterations: int | None = None) -> Data:
        """A denoised copy; the input stays as it is.

        Args:
            data: Positions, and faces if it is a mesh. Normals, centroids and areas that it has
                are computed anew, all else is kept.
            strength: Below 1 the vertices go only that part of their way; above 1 the filters are
                so many times as wide.
            iterations: How many stages; the last one is repeated if there are not so many.
        """
        count = self._check(data, strength, iterations)
        result = copy.copy(data)
        result.pos = data["pos"].clone()
        if data["pos"].numel() and count and strength > 0:
            self._denoise(result, strength, count)
        if data.get("face") is not None:
            refresh(result)
        return result

    def _denoise(self, data: Data, strength: float, count: int) -> None:
        """Move the points of ``data``, and turn the normals of a cloud that has some."""
        pos: Tensor = data["pos"]
        local = pos.double() - pos.double().mean(dim=0)
        face, side = data.get("face"), data.get("normal")
        pieces = Samples(local, side) if face is None else Triangles(local, face)
        if pieces.spacing == 0.0:
            return
        # Filters are so many times as wide if all lengths count in units as much longer.
        unit = pieces.spacing * max(strength, 1.0)
        scaled = (local / unit).float()
        moved, normal = self.cascade(pieces, scaled, count)
        data.pos = pos + ((moved - scaled).double() * (unit * min(strength, 1.0))).to(pos.dtype)
        if face is None and side is not None:
            data.normal = normal.to(side.dtype)

    def cascade(self, pieces: Pieces, pos: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Positions ``[V, 3]`` in units of the spacing, denoised by ``count`` stages, and the
        normals ``[N, 3]`` of the pieces that they fit."""
        stages = self.point_stages if isinstance(pieces, Samples) else self.stages
        surface = begin(pieces, pos)
        for index in range(count):
            stage = stages[min(index, len(stages) - 1)]
            surface = advance(pieces, pos, surface, stage(surface))
        return pieces.fit(pos, surface.estimate, pieces.steps), surface.estimate

    def _check(self, data: Data, strength: float, iterations: int | None) -> int:
        """How many stages to run on an input that is fit for it."""
        require_single(self, data)
        pos = require_pos(self, data, dims=(3,))
        if data.get("face") is not None:
            require_mesh(self, data)
        if not pos.isfinite().all():
            row = int((~pos.isfinite().all(dim=1)).nonzero()[0])
            raise ValueError(
                f"MeshDenoiser: Expected finite 'pos' (got {pos[row].tolist()} in row {row})"
            )
        if not 0.0 <= strength < math.inf:
            raise ValueError(f"MeshDenoiser: Expected a finite 'strength' >= 0 (got {strength})")
        if iterations is not None and iterations < 0:
            raise ValueError(f"MeshDenoiser: Expected 'iterations' >= 0 (got {iterations})")
        return len(self.stages) if iterations is None else iterations

    def __repr__(self) -> str:
        stages: Any = self.stages
        sizes = [len(stage.bandwidths) for stage in stages]
        return f"{type(self).__name__}(lattices={sizes}, hidden_channels={self.hidden_channels})"


def _stages(bandwidths: Sequence[Bandwidths], hidden_channels: int) -> torch.nn.ModuleList:
    return torch.nn.ModuleList(
        NormalStage(stage, len(SMOOTHING), hidden_channels) for stage in bandwidths
    )
