"""Reach of the filters on the lattice, which is the margin that makes tiles exact."""

from __future__ import annotations

from itertools import product

import numpy as np

from permutogeo.checks import check_integer


def lattice_reach(dim: int, radius: int | None = None) -> float:
    r"""Return an upper bound of the distance over which a lattice filter carries values.

    A value is splatted to the corners of its simplex, filtered, and sliced at the corners of
    another simplex. With a margin of at least the reach times the bandwidth of the positions, the
    results of a tile equal those of the whole cloud up to the order of sums.

    .. math::

        \max_{c} \Bigl\| \sum_j c_j a_j \Bigr\| + 2 \max_k \Bigl\| \sum_{j \le k} a_j \Bigr\|

    where :math:`a_j` are the :math:`d + 1` axes of the lattice in feature units, and :math:`c` is
    in :math:`\{-1, 0, 1\}^{d+1}` for the blur and in :math:`\{0, \dots, s\}^{d+1}` for a stencil of
    radius :math:`s`.

    Args:
        dim: Dimension of the features, at most 8.
        radius: Radius of a convolution; ``None`` for the separable Gaussian blur. The reach of a
            network is the sum of those of its layers.

    Example:
        >>> from permutogeo.tiles import lattice_reach
        >>> print(f"{lattice_reach(3):.3f} {lattice_reach(3, radius=1):.3f}")
        4.899 3.674
    """
    check_integer(None, "dim", dim)
    if dim > 8:
        raise ValueError(f"Expected 'dim' of at most 8 (got {dim})")
    if radius is not None:
        check_integer(None, "radius", radius, 0)
    corners = dim + 1
    # Elevated axes, and the norm of a unit feature vector after elevation.
    axes = corners * np.eye(corners) - 1.0
    unit = corners * np.sqrt(2 / 3)
    steps = (-1, 0, 1) if radius is None else (0, radius)
    combined = np.array(list(product(steps, repeat=corners))) @ axes
    simplex = np.cumsum(axes, axis=0)
    farthest = np.linalg.norm(combined, axis=1).max() + 2 * np.linalg.norm(simplex, axis=1).max()
    return float(farthest / unit)
