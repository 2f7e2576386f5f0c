"""One stage of the cascade: normals filtered on several lattices and mixed by learned weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from permutogeo.lattice import Lattice
from permutogeo.runtime import memory

# Rows per chunk: products of candidates, quadratic in their number, stay in the cache.
CHUNK = 2**12
# From this number of elements on, unused memory is returned to the system after so many lattices.
LARGE, LATTICES_PER_TRIM = 2**17, 4
TINY = 1e-12
# Number of statistics of an element that depend on no lattice.
NUM_ELEMENT_STATISTICS = 6
# Lower bound of areas and widths before their logarithm.
LEAST_SIZE = 1e-3


@dataclass(frozen=True)
class Surface:
    """Elements of a surface as points, in units of the edge length.

    Args:
        center: Current centers, ``[N, 3]``.
        normal: Current normals, ``[N, 3]``.
        area: Current areas divided by their mean, ``[N]``.
        width: Current least widths, ``[N]``.
        input_normal: Normals of the noisy input, ``[N, 3]``.
        input_center: Centers of the noisy input, ``[N, 3]``.
        input_area: Areas of the noisy input divided by their mean, ``[N]``.
        smoothed_normals: Normals of the input after increasing amounts of smoothing,
            ``[N, S, 3]``.
        estimate: Normals estimated by the previous stage, ``[N, 3]``.
        log_noise: Logarithms of the estimated noise of normals and of positions, ``[2]``.
        local_noise: Logarithms of noise cues averaged around each element, ``[N, Q]``.
    """

    center: Tensor
    normal: Tensor
    area: Tensor
    width: Tensor
    input_normal: Tensor
    input_center: Tensor
    input_area: Tensor
    smoothed_normals: Tensor
    estimate: Tensor
    log_noise: Tensor
    local_noise: Tensor


@dataclass(frozen=True)
class Candidates:
    """Candidate normals of each element, ``[N, K, 3]``, and statistics of them, ``[N, S]``."""

    normals: Tensor
    statistics: Tensor

    def __len__(self) -> int:
        return len(self.normals)

    def __getitem__(self, rows: Tensor | slice) -> Candidates:
        return Candidates(self.normals[rows], self.statistics[rows])

    def to(self, device: torch.device) -> Candidates:
        """Return the candidates on a device."""
        return Candidates(self.normals.to(device), self.statistics.to(device))


@dataclass(frozen=True)
class LatticeMeans:
    """Weighted means around each element, from one lattice.

    Args:
        normals: Unit mean normals of the input and of the current surface, ``[N, 3]`` each.
        lengths: Lengths of the mean normals before normalization, ``[N, 1]`` each.
        log_mass: Logarithm of the area in the window, ``[N, 1]``.
        offset: Mean center minus own center, in units of the bandwidth, ``[N, 3]``.
    """

    normals: list[Tensor]
    lengths: list[Tensor]
    log_mass: Tensor
    offset: Tensor


class NormalStage(torch.nn.Module):
    r"""Filters normals on several lattices and mixes the results by learned weights.

    Each pair of bandwidths :math:`(a, b)` gives area-weighted means of the input normals and of the
    current normals over the lattice of features :math:`(\mathbf{c} / a, \mathbf{n} / b)`, or
    :math:`\mathbf{c} / a` alone. An MLP maps rotation-invariant statistics (inner products of
    candidates, lengths of the means, masses, offsets of the mean positions, size and displacement
    of the element, noise) to one weight per candidate:

    .. math::
        \mathbf{n}^{\prime}_i = \frac{\sum_k \alpha_{ik} \mathbf{m}_{ik}}
        {\left\| \sum_k \alpha_{ik} \mathbf{m}_{ik} \right\|}

    Args:
        bandwidths: Pairs of the bandwidths of positions, in edge lengths, and of normals;
            ``None`` for a lattice of positions alone.
        num_smooth: Number of smoothed normals per element.
        hidden_channels: Width of the MLP.
        num_cues: Number of local noise cues per element that the MLP is given.
    """

    mean: Tensor
    scale: Tensor

    def __init__(
        self,
        bandwidths: Sequence[tuple[float, float | None]],
        num_smooth: int = 3,
        hidden_channels: int = 64,
        num_cues: int = 0,
    ):
        super().__init__()
        self.bandwidths = [(float(a), None if b is None else float(b)) for a, b in bandwidths]
        self.num_smooth = num_smooth
        self.hidden_channels = hidden_channels
        self.num_candidates = 3 + num_smooth + 2 * len(self.bandwidths)
        pairs = self.num_candidates * (self.num_candidates - 1) // 2
        self.num_cues = num_cues
        self.num_inputs = pairs + 5 * len(self.bandwidths) + NUM_ELEMENT_STATISTICS + num_cues
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
        """Resets all learnable parameters; the stage then returns its input estimate."""
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
        """Return the estimated normals ``[N, 3]``."""
        return self.mix_in_chunks(self.candidates(surface))

    @torch.no_grad()
    def candidates(self, surface: Surface) -> Candidates:
        """Return the candidate normals and their statistics; nothing here is learned."""
        area = surface.area.unsqueeze(1)
        input_normal = surface.input_area.unsqueeze(1) * surface.input_normal
        x = torch.cat([input_normal, area * surface.normal, area, area * surface.center], 1)
        first = [
            surface.estimate,
            surface.input_normal,
            surface.normal,
            *surface.smoothed_normals.unbind(1),
        ]
        # Filled column by column: memory that is not written yet is not taken.
        count = len(self.bandwidths)
        num_statistics = 5 * count + NUM_ELEMENT_STATISTICS + self.num_cues
        normals = x.new_empty(self.num_candidates, len(x), 3).transpose(0, 1)
        statistics = x.new_empty(num_statistics, len(x)).t()
        for index, normal in enumerate(first):
            normals[:, index] = normal
        lengths, mass, along, across, rest = statistics.split(
            [2 * count, count, count, count, NUM_ELEMENT_STATISTICS + self.num_cues], 1
        )
        # Lattices over normals take most memory: they come first, while few columns are filled.
        order = sorted(range(count), key=lambda number: self.bandwidths[number][1] is None)
        for place, number in enumerate(order):
            if len(x) >= LARGE and place % LATTICES_PER_TRIM == 0:
                memory.trim()
            found = _lattice_means(x, surface, *self.bandwidths[number])
            for index, normal in enumerate(found.normals):
                normals[:, len(first) + 2 * number + index] = normal
                lengths[:, 2 * number + index] = found.lengths[index].squeeze(1)
            mass[:, number] = found.log_mass.squeeze(1)
            height, width = _split_offsets(found.offset, surface.estimate)
            along[:, number], across[:, number] = height.squeeze(1), width.squeeze(1)
        mass -= mass[:, 1:2].clone()  # relative to the second lattice
        rest[:, :NUM_ELEMENT_STATISTICS] = _element_statistics(surface)
        rest[:, NUM_ELEMENT_STATISTICS:] = surface.local_noise[:, : self.num_cues]
        return Candidates(normals, statistics)

    def inputs(self, candidates: Candidates) -> Tensor:
        """Return the inputs of the MLP before standardization, ``[N, I]``."""
        count, first = self.num_candidates, candidates.statistics.size(1)
        x, y, z = candidates.normals.permute(2, 1, 0).contiguous()
        # Filled row by row: sums over three components are slow.
        inputs = x.new_empty(self.num_inputs, len(candidates))
        inputs[:first] = candidates.statistics.t()
        start = first
        for index in range(count - 1):
            product = inputs[start : start + count - 1 - index]
            torch.mul(x[index + 1 :], x[index], out=product)
            product.addcmul_(y[index + 1 :], y[index]).addcmul_(z[index + 1 :], z[index])
            start += len(product)
        # The sine of half the angle: the cosine is flat where normals agree.
        inputs[first:].neg_().add_(1).clamp_(min=1e-6).sqrt_()
        return inputs.t()

    def mix(self, candidates: Candidates) -> Tensor:
        """Return the normals ``[N, 3]`` mixed from candidates by the learned weights."""
        x = self.inputs(candidates).sub_(self.mean).div_(self.scale).clamp_(-6, 6)
        for lin in self.lins[:-1]:
            x = torch.nn.functional.silu(lin(x))
        total = (self.lins[-1](x).unsqueeze(2) * candidates.normals).sum(dim=1)
        return torch.nn.functional.normalize(total, dim=1, eps=TINY)

    def mix_in_chunks(self, candidates: Candidates) -> Tensor:
        """Return :meth:`mix` of all candidates, computed in chunks of rows."""
        # Results kept between the temporaries of chunks would fragment the heap.
        mixed = torch.empty_like(candidates.normals[:, 0])
        for start in range(0, len(candidates), CHUNK):
            rows = slice(start, start + CHUNK)
            mixed[rows] = self.mix(candidates[rows])
        return mixed

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.bandwidths}, num_smooth={self.num_smooth}, "
            f"hidden_channels={self.hidden_channels})"
        )


def _lattice_means(
    x: Tensor, surface: Surface, position_sigma: float, normal_sigma: float | None
) -> LatticeMeans:
    """Filter area-weighted normals, areas and centers ``[N, 3 + 3 + 1 + 3]`` on one lattice."""
    feature = surface.center / position_sigma
    if normal_sigma is not None:
        feature = torch.cat([feature, surface.estimate / normal_sigma], 1)
    lattice = Lattice.build(feature)
    sums = lattice.slice(lattice.blur(lattice.splat(x)))
    *normal_sums, mass, center = sums.split([3, 3, 1, 3], 1)
    mass = mass.clamp(min=TINY)
    lengths = [torch.linalg.vector_norm(total, dim=1, keepdim=True) for total in normal_sums]
    return LatticeMeans(
        normals=[
            total / length.clamp(min=TINY)
            for total, length in zip(normal_sums, lengths, strict=True)
        ],
        lengths=[length / mass for length in lengths],
        log_mass=mass.log(),
        offset=(center / mass - surface.center) / position_sigma,
    )


def _element_statistics(surface: Surface) -> Tensor:
    """Return log sizes, the displacement along the normal and the noise levels, ``[N, 6]``."""
    sizes = torch.stack([surface.area, surface.input_area, surface.width], 1)
    moved = surface.center - surface.input_center
    displacement = (moved * surface.estimate).sum(dim=1, keepdim=True)
    noise = surface.log_noise.expand(len(sizes), 2)
    return torch.cat([sizes.clamp(min=LEAST_SIZE).log(), displacement, noise], 1)


def _split_offsets(offset: Tensor, normal: Tensor) -> tuple[Tensor, Tensor]:
    """Return the components of offsets ``[N, 3]`` along and across normals, ``[N, 1]`` each."""
    along = (offset * normal).sum(dim=1, keepdim=True)
    return along, torch.linalg.vector_norm(offset - along * normal, dim=1, keepdim=True)
