"""Baselines: pydensecrf and spconv where installed, and lattice layers in plain torch."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from permutogeo.kernels.simplex import elevation_matrix
from permutogeo.ops import stencils


def has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def pydensecrf_build(feature: torch.Tensor) -> Callable[[], object]:
    """Return a call that builds pydensecrf's lattice and filters one channel for its normalizer."""
    import pydensecrf.densecrf as densecrf

    rows = np.ascontiguousarray(feature.numpy().T)

    def build() -> object:
        crf = densecrf.DenseCRF(rows.shape[1], 2)
        crf.addPairwiseEnergy(rows, compat=1)
        return crf

    return build


class TorchLayer:
    """A lattice layer in plain torch: ``unique``, ``searchsorted``, gather, one product."""

    def __init__(self, feature: torch.Tensor):
        count, dim = feature.shape
        matrix = torch.tensor(elevation_matrix(dim, 0.5)).float()
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
    """Sparse convolution tap by tap: gather, matrix product, ``index_add_``."""
    out = values.new_zeros(len(values), filter.shape[2])
    for tap in range(len(filter)):
        target = (neighbors[:, tap] >= 0).nonzero()[:, 0]
        source = neighbors[target, tap].long()
        out.index_add_(0, target, values[source] @ filter[tap])
    return out


def spconv_forward(voxel: np.ndarray, channels: int, outputs: int, repeats: int) -> float:
    """Return the milliseconds of spconv's 3 x 3 x 3 submanifold convolution, with cached indices.

    Runs in a process with one OpenMP thread: with more, spconv's CPU results are wrong.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "voxel.npy"
        np.save(path, voxel - voxel.min(0))
        command = [sys.executable, "-c", _SPCONV, str(path), str(channels), str(outputs)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        result = subprocess.run(
            [*command, str(repeats)], capture_output=True, check=True, env=environment
        )
    return float(result.stdout.split()[-1])


_SPCONV = """
import sys, time, statistics
import numpy as np, torch
import spconv.pytorch as spconv

voxel = np.load(sys.argv[1]).astype(np.int32)
channels, outputs, repeats = map(int, sys.argv[2:])
index = torch.from_numpy(np.ascontiguousarray(np.pad(voxel, ((0, 0), (1, 0)))))
layer = spconv.SubMConv3d(
    channels, outputs, 3, bias=False, indice_key="shell", algo=spconv.ConvAlgo.Native
)
x = torch.randn(len(voxel), channels)
times = []
with torch.no_grad():
    sparse = spconv.SparseConvTensor(x, index, [int(voxel.max()) + 1] * 3, 1)
    layer(sparse)
    for _ in range(repeats):
        start = time.perf_counter()
        layer(sparse)
        times.append(time.perf_counter() - start)
print(1e3 * statistics.median(times))
"""
