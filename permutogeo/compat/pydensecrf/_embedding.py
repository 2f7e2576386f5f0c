"""Points where pydensecrf's single precision puts them.

Features on a grid, such as positions divided by a bandwidth, often lie on faces between simplices
of the lattice. Rounding then decides which simplex a point belongs to, hence which vertices exist
for the blur to pass through, and that can be seen in the marginals. So points are rounded here as
they are there. Equal coordinates are ordered by their axes, which a small step aside does for all
points alike.
"""

from __future__ import annotations

import numpy as np
import torch

from permutogeo.compat.pydensecrf._parts import in_parts
from permutogeo.incidence import Incidence
from permutogeo.lattice import Lattice

# The step along each axis: more than double precision rounds off, less than single precision sees.
_ASIDE = 2.0**-32


def lay_lattice(feature: np.ndarray) -> Lattice:
    """The lattice of pydensecrf over features :math:`(d, N)` float32.

    It embeds points by fours and fills up with zeros, which leaves vertices around the origin:
    empty, but there for the blur to pass through.
    """
    count = feature.shape[1]
    if count % 4:
        feature = np.pad(feature, ((0, 0), (0, 1)))
    whole = Lattice.build(settle(feature))
    vertex, weight = whole.vertex[:count], whole.weight[:count].float()
    incidence = Incidence(vertex, weight, whole.num_vertices, complete=True)
    return Lattice(whole.feature[:count], None, incidence, whole.code, whole.box)


def settle(feature: np.ndarray) -> torch.Tensor:
    """Features ``[d, N]`` float32 to points ``[N, d]`` float64 in the simplices of pydensecrf.

    Example:

        >>> feature = np.array([[0, 1, 2], [0, 3, 3]], np.float32)
        >>> bool(np.abs(settle(feature).numpy() - feature.T).max() < 1e-6)
        True
    """
    dim, count = feature.shape
    out = np.empty((count, dim))
    in_parts(lambda a, b: _lower(_elevate(feature[:, a:b]), out[a:b]), count, dim + 1)
    return torch.from_numpy(out)


def _lower(elevated: np.ndarray, out: np.ndarray) -> None:
    """From elevated points ``[d + 1, n]``, a step aside, to points ``[n, d]``.

    The columns of Adams' elevation are orthogonal, so that it is undone by its transpose: on axis j
    the sum of the first j coordinates less j times the next.
    """
    dim = len(elevated) - 1
    above = elevated[0].astype(np.float64)
    for j in range(1, dim + 1):
        here = elevated[j].astype(np.float64) - j * _ASIDE
        scale = np.sqrt(1.5 / (j * (j + 1.0))) / (dim + 1)
        np.multiply(above - j * here, scale, out=out[:, j - 1])
        above += here


def _elevate(feature: np.ndarray) -> np.ndarray:
    """The elevated points ``[d + 1, n]``, rounded after each operation."""
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
