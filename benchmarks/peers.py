"""Other people's lattices and convolutions, where they are installed, and plain torch."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import numpy as np
import torch

from permutogeo import stencils
from permutogeo.kernels.simplex import elevation_matrix


def has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def pydensecrf_build(feature: torch.Tensor) -> Callable[[], object]:
    """pydensecrf's C++ lattice: it builds, and filters one channel for the normalizer."""
    import pydensecrf.densecrf as densecrf

    rows = np.ascontiguousarray(feature.numpy().T)

    def build() -> object:
        crf = densecrf.DenseCRF(rows.shape[1], 2)
        crf.addPairwiseEnergy(rows, compat=1)
        return crf

    return build


class TorchLayer:
    """A lattice layer in plain torch: unique codes, searched neighbors, gather and one product."""

    def __init__(self, feature: torch.Tensor):
        count, dim = feature.shape
        matrix = torch.from_numpy(elevation_matrix(dim, 0.5)).float()
        grid = feature @ matrix.T
        floor = grid.floor()
        fraction, order = (grid - floor).sort(dim=1, descending=True)
        edge = torch.ones(count, 1), torch.zeros(count, 1)
        self.weight = -torch.diff(torch.cat([edge[0], fraction, edge[1]], 1), dim=1)
        low = floor.amin(0) - 1
        extent = (floor.amax(0) - low + 3).long()
        stride = extent.flip(0).cumprod(0).flip(0) // extent
        base = ((floor - low).long() * stride).sum(1, keepdim=True)
        code = torch.cat([base, base + stride[order].cumsum(1)], 1)
        self.code, vertex = code.unique(return_inverse=True)
        self.vertex = vertex.view(count, dim + 1)
        offset = (stencils.grid_offsets(dim, 1, 1, "full") * stride).sum(1)
        wanted = self.code[:, None] + offset
        found = torch.searchsorted(self.code, wanted).clamp(max=len(self.code) - 1)
        absent = torch.full_like(found, len(self.code))
        self.neighbors = torch.where(self.code[found] == wanted, found, absent)

    def __call__(self, x: torch.Tensor, filter: torch.Tensor) -> torch.Tensor:
        values = x.new_zeros(len(self.code) + 1, x.shape[1])
        weighted = self.weight[:, :, None] * x[:, None, :]
        values.index_add_(0, self.vertex.view(-1), weighted.view(-1, x.shape[1]))
        gathered = values[self.neighbors].flatten(1)
        out = gathered @ filter.flatten(0, 1)
        return (out[self.vertex] * self.weight[:, :, None]).sum(1)


def gather_gemm_scatter(
    values: torch.Tensor, filter: torch.Tensor, neighbors: torch.Tensor
) -> torch.Tensor:
    """A sparse convolution tap by tap: gather, product, ``index_add_``."""
    out = values.new_zeros(len(values), filter.shape[2])
    for tap in range(len(filter)):
        target = (neighbors[:, tap] >= 0).nonzero()[:, 0]
        source = neighbors[target, tap].long()
        out.index_add_(0, target, values[source] @ filter[tap])
    return out
