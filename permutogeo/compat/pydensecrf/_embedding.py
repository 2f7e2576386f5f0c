"""Lattices over points rounded as in pydensecrf.

Features on a grid, such as positions divided by a bandwidth, often lie on faces between simplices
of the lattice. Rounding then decides which simplex contains a point, hence which vertices exist for
the blur to pass through, which is visible in the marginals. Points are therefore rounded as in
pydensecrf's single precision. A small offset orders equal coordinates by axis, as there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
import torch

from permutogeo.lattice import Incidence, Lattice
from permutogeo.runtime import threads

# Offset along each axis: above the rounding of float64, below that of float32.
_OFFSET = 2.0**-32
# Numbers in a chunk, which stays in the cache of a thread.
_CHUNK = 1 << 18


def run_in_chunks(job: Callable[[int, int], None], count: int, width: int) -> None:
    """Call ``job(first, last)`` for chunks of ``range(count)`` on the threads of the pool.

    Args:
        width: Numbers at each index.
    """
    step = max(1, _CHUNK // max(1, width))
    edges = [*range(0, count, step), count]
    threads.run_without_grad([partial(job, a, b) for a, b in pairwise(edges)])


def build_lattice(feature: np.ndarray) -> Lattice:
    """Build the lattice of pydensecrf over features :math:`(d, N)` float32.

    pydensecrf embeds points by fours and pads with zeros, which leaves empty vertices around the
    origin that the blur passes through.
    """
    count = feature.shape[1]
    if count % 4:
        feature = np.pad(feature, ((0, 0), (0, 1)))
    whole = Lattice.build(replicate_rounding(feature))
    vertex, weight = whole.vertex[:count], whole.weight[:count].float()
    incidence = Incidence(vertex, weight, whole.num_vertices, complete=True)
    return Lattice(whole.feature[:count], None, incidence, whole.code, whole.box)


def replicate_rounding(feature: np.ndarray) -> torch.Tensor:
    """Return points ``[N, d]`` float64 that lie in the simplices that pydensecrf finds for features
    ``[d, N]`` float32.

    Example:

        >>> feature = np.array([[0, 1, 2], [0, 3, 3]], np.float32)
        >>> bool(np.abs(replicate_rounding(feature).numpy() - feature.T).max() < 1e-6)
        True
    """
    dim, count = feature.shape
    out = np.empty((count, dim))
    run_in_chunks(lambda a, b: _project(_elevate(feature[:, a:b]), out[a:b]), count, dim + 1)
    return torch.from_numpy(out)


def _project(elevated: np.ndarray, out: np.ndarray) -> None:
    """Offset elevated points ``[d + 1, n]`` and project them to points ``[n, d]``.

    The columns of Adams' elevation are orthogonal, so its transpose inverts it: along axis j, the
    sum of the first j coordinates minus j times the next.
    """
    dim = len(elevated) - 1
    above = elevated[0].astype(np.float64)
    for j in range(1, dim + 1):
        here = elevated[j].astype(np.float64) - j * _OFFSET
        scale = np.sqrt(1.5 / (j * (j + 1.0))) / (dim + 1)
        np.multiply(above - j * here, scale, out=out[:, j - 1])
        above += here


def _elevate(feature: np.ndarray) -> np.ndarray:
    """Return the elevated points ``[d + 1, n]``, rounded to float32 after each operation."""
    dim, count = feature.shape
    index = np.arange(1, dim + 1)
    width = float(np.float32(np.sqrt(2.0 / 3.0) * (dim + 1)))
    scale = (1.0 / np.sqrt(index * (index + 1)) * width).astype(np.float32)
    elevated = np.empty((dim + 1, count), np.float32)
    above = np.zeros(count, np.float32)
    for j in range(dim, 0, -1):
        step = feature[j - 1] * scale[j - 1]
        np.subtract(above, np.float32(j) * step, out=elevated[j])
        above += step
    elevated[0] = above
    return elevated
