"""One stage of learned filtering of normals: candidates from lattices, and their mixture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from permutogeo.lattice import Lattice

# Rows that are mixed at a time: what grows with the square of the candidates stays in the cache.
CHUNK = 2**12
TINY = 1e-12
# What is known of a piece by itself, and of the noise.
NUM_OWN = 6
# The least area and breadth that are told apart.
LEAST_SIZE = 1e-3


@dataclass(frozen=True)
class Surface:
    """Pieces of a surface as points, in units of its edge length.

    Args:
        center: Where they are now, ``[N, 3]``.
        shape: Their normals as they lie now, ``[N, 3]``.
        area: Their areas now, ``[N]``; the mean is 1.
        breadth: How wide they are now where they are thinnest, ``[N]``.
        measured: Their normals in the input, ``[N, 3]``.
        measured_center: Where they are in the input, ``[N, 3]``.
        measured_area: Their areas in the input, ``[N]``; the mean is 1.
        smooth: Their normals where the input's positions are smoothed, more and more,
            ``[N, S, 3]``.
        estimate: Their normals as the last stage would have them, ``[N, 3]``.
        noise: Logarithms of the estimated noise of normals and of positions, ``[2]``.
    """

    center: Tensor
    shape: Tensor
    area: Tensor
    breadth: Tensor
    measured: Tensor
    measured_center: Tensor
    measured_area: Tensor
    smooth: Tensor
    estimate: Tensor
    noise: Tensor


@dataclass(frozen=True)
class Candidates:
    """Possible normals of each point, ``[N, K, 3]``, and numbers about them, ``[N, S]``."""

    vector: Tensor
    scalar: Tensor

    def __len__(self) -> int:
        return len(self.vector)

    def __getitem__(self, rows: Tensor | slice) -> Candidates:
        return Candidates(self.vector[rows], self.scalar[rows])


class NormalStage(torch.nn.Module):
    r"""Filters normals on several lattices and mixes the results by learned weights.

    Each pair of bandwidths :math:`(a, b)` gives means of the measured normals and of the present
    ones, weighted by area, over the lattice of features :math:`(\mathbf{c} / a, \mathbf{n} / b)`,
    or :math:`\mathbf{c} / a` alone. A perceptron sees what rotations leave as it is (products of
    candidates, lengths of the means, masses, offsets of the mean positions, the size and the way of
    the piece itself, the noise) and gives a weight for each candidate:

    .. math::
        \mathbf{n}^{\prime}_i = \frac{\sum_k \alpha_{ik} \mathbf{m}_{ik}}
        {\left\| \sum_k \alpha_{ik} \mathbf{m}_{ik} \right\|}

    Args:
        bandwidths: Pairs of position, in edge lengths, and normal; ``None`` for no normal.
        num_smooth: How many normals of smoothed positions a point has.
        hidden_channels: Width of the perceptron.
    """

    mean: Tensor
    scale: Tensor

    def __init__(
        self,
        bandwidths: Sequence[tuple[float, float | None]],
        num_smooth: int = 3,
        hidden_channels: int = 64,
    ):
        super().__init__()
        self.bandwidths = [(float(a), None if b is None else float(b)) for a, b in bandwidths]
        self.num_smooth = num_smooth
        self.hidden_channels = hidden_channels
        self.num_candidates = 3 + num_smooth + 2 * len(self.bandwidths)
        pairs = self.num_candidates * (self.num_candidates - 1) // 2
        self.num_inputs = pairs + 5 * len(self.bandwidths) + NUM_OWN
        self.register_buffer("mean", torch.zeros(self.num_inputs))
        self.register_buffer("scale", torch.ones(self.num_inputs))
        self.lins = torch.nn.ModuleList(
            [
                torch.nn.Linear(self.num_inputs, hidden_channels),
                torch.nn.Linear(hidden_channels, hidden_channels),
                torch.nn.Linear(hidden_channels, self.num_candidates),
            ]
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start anew, with the normals as they come."""
        torch.nn.init.zeros_(self.mean)
        torch.nn.init.ones_(self.scale)
        lins: Any = self.lins
        for lin in lins:
            lin.reset_parameters()
        torch.nn.init.zeros_(lins[-1].weight)
        torch.nn.init.zeros_(lins[-1].bias)
        with torch.no_grad():
            lins[-1].bias[0] = 1.0

    def forward(self, surface: Surface) -> Tensor:
        """The normals ``[N, 3]`` that this stage estimates."""
        return self.mix_all(self.candidates(surface))

    def mix_all(self, candidates: Candidates) -> Tensor:
        """As :meth:`mix`, chunk by chunk."""
        starts = range(0, max(1, len(candidates)), CHUNK)
        return torch.cat([self.mix(candidates[start : start + CHUNK]) for start in starts])

    @torch.no_grad()
    def candidates(self, surface: Surface) -> Candidates:
        """Filter on each lattice; nothing of this is learned."""
        area = surface.area.unsqueeze(1)
        measured = surface.measured_area.unsqueeze(1) * surface.measured
        x = torch.cat([measured, area * surface.shape, area, area * surface.center], 1)
        vectors = [surface.estimate, surface.measured, surface.shape, *surface.smooth.unbind(1)]
        lengths, masses, offsets = [], [], []
        for position, normal in self.bandwidths:
            feature = surface.center / position
            if normal is not None:
                feature = torch.cat([feature, surface.estimate / normal], 1)
            *sums, mass, center = _filter(x, feature).split([3, 3, 1, 3], 1)
            mass = mass.clamp(min=TINY)
            for total in sums:
                length = torch.linalg.vector_norm(total, dim=1, keepdim=True)
                vectors.append(total / length.clamp(min=TINY))
                lengths.append(length / mass)
            masses.append(mass.log())
            offsets.append((center / mass - surface.center) / position)
        level = torch.cat(masses, 1)
        level = level - level[:, 1:2]
        along, across = _split(torch.stack(offsets, 1), surface.estimate)
        scalar = torch.cat([*lengths, level, along, across, _own(surface)], 1)
        return Candidates(torch.stack(vectors, 1), scalar)

    def inputs(self, candidates: Candidates) -> Tensor:
        """What the perceptron sees, ``[N, I]``, before it is brought to mean 0 and scale 1."""
        product = candidates.vector @ candidates.vector.transpose(1, 2)
        count = self.num_candidates
        row, column = torch.triu_indices(count, count, 1, device=product.device)
        product = product.flatten(1).index_select(1, row * count + column)
        # The sine of half the angle rather than its cosine, which is flat where normals agree.
        distance = (1 - product).clamp(min=1e-6).sqrt()
        return torch.cat([candidates.scalar, distance], 1)

    def mix(self, candidates: Candidates, inputs: Tensor | None = None) -> Tensor:
        """The normals ``[N, 3]`` that the learned weights make of candidates.

        Args:
            inputs: Their :meth:`inputs`, if these are known already.
        """
        x = self.inputs(candidates) if inputs is None else inputs
        x = ((x - self.mean) / self.scale).clamp(-6, 6)
        for lin in self.lins[:-1]:
            x = torch.nn.functional.silu(lin(x))
        total = (self.lins[-1](x).unsqueeze(2) * candidates.vector).sum(dim=1)
        return torch.nn.functional.normalize(total, dim=1, eps=TINY)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.bandwidths}, num_smooth={self.num_smooth}, "
            f"hidden_channels={self.hidden_channels})"
        )


def _filter(x: Tensor, feature: Tensor) -> Tensor:
    """The Gaussian sums, not divided by their weights."""
    lattice = Lattice.build(feature)
    return lattice.slice(lattice.blur(lattice.splat(x)))


def _own(surface: Surface) -> Tensor:
    """Sizes of each piece, its way along its normal so far, and the noise, ``[N, 6]``."""
    sizes = torch.stack([surface.area, surface.measured_area, surface.breadth], 1)
    moved = surface.center - surface.measured_center
    way = (moved * surface.estimate).sum(dim=1, keepdim=True)
    noise = surface.noise.expand(len(sizes), 2)
    return torch.cat([sizes.clamp(min=LEAST_SIZE).log(), way, noise], 1)


def _split(offset: Tensor, normal: Tensor) -> tuple[Tensor, Tensor]:
    """How far offsets ``[N, L, 3]`` go along normals and across them, ``[N, L]`` both."""
    along = (offset * normal.unsqueeze(1)).sum(dim=2)
    across = offset - along.unsqueeze(2) * normal.unsqueeze(1)
    return along, torch.linalg.vector_norm(across, dim=2)
