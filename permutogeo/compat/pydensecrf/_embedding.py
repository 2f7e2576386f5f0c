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
    lower = torch.from_numpy(np.linalg.pinv(_elevation(dim)).T.copy())
    aside = -_ASIDE * torch.arange(dim + 1, dtype=torch.float64, device="cpu") @ lower
    out = torch.empty(count, dim, dtype=torch.float64, device="cpu")

    def part(a: int, b: int) -> None:
        elevated = torch.from_numpy(_elevate(feature[:, a:b])).double()
        torch.addmm(aside, elevated.t(), lower, out=out[a:b])

    in_parts(part, count, dim + 1)
    return out


def _elevation(dim: int) -> np.ndarray:
    """Adams' elevation as a matrix, ``[d + 1, d]``."""
    index = np.arange(1, dim + 1)
    matrix = np.triu(np.ones((dim + 1, dim)))
    matrix[index, index - 1] = -index
    return matrix * (np.sqrt(2.0 / 3.0) * (dim + 1) / np.sqrt(index * (index + 1.0)))


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
