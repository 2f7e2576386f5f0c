"""Enclosing simplex of a point, in coordinates where the lattice is the integer grid.

With ``u_j = (e_j - e_d) / D`` for the elevated point ``e``, lattice points become the integer
vectors of ``Z^d``, the step along lattice axis ``j < d`` becomes the unit vector ``j``, and the
step along axis ``d`` minus all of them. The simplices become those of Kuhn and Freudenthal: the
corners of the one around ``u`` are ``floor(u)`` and the points reached from it by unit steps in the
order of descending fractions; differences of consecutive fractions are the barycentric weights.
"""

from functools import cache
from types import SimpleNamespace

import numpy as np
import warp as wp


@cache
def elevation(dim: int, tap_variance: float) -> tuple[list[float], list[float]]:
    """Return the coefficients ``scale`` and ``subdiagonal`` of the map from features to ``u``.

    ``u_j = sum_{i >= j} scale_i f_i - subdiagonal_j f_{j-1} + subdiagonal_0 f_{d-1}``: the first
    term is the suffix sum of Adams' elevation, ``subdiagonal_j = j scale_{j-1}``, and the last term
    is ``-e_d``.
    """
    index = np.arange(1, dim + 1, dtype=np.float64)
    scale = np.sqrt(1.0 / 6.0 + tap_variance) / np.sqrt(index * (index + 1.0))
    subdiagonal = index * scale
    return scale.tolist(), np.roll(subdiagonal, 1).tolist()


@cache
def elevation_matrix(dim: int, tap_variance: float) -> np.ndarray:
    """Return the map from features to ``u`` as a dense ``[d, d]`` matrix."""
    scale, subdiagonal = elevation(dim, tap_variance)
    matrix = np.triu(np.tile(scale, (dim, 1)))
    for axis in range(1, dim):
        matrix[axis, axis - 1] -= subdiagonal[axis]
    matrix[:, dim - 1] += subdiagonal[0]
    matrix.flags.writeable = False
    return matrix


@cache
def make(dim: int, dtype: type) -> SimpleNamespace:
    """Return types and device functions for points of ``dim`` features of scalar type ``dtype``."""
    corners = dim + 1
    half = dim // 2
    Real = wp.types.vector(length=dim, dtype=wp.float64)
    Long = wp.types.vector(length=dim, dtype=wp.int64)
    Feature = wp.types.vector(length=dim, dtype=dtype)
    Weight = wp.types.vector(length=corners, dtype=dtype)
    Vertex = wp.types.vector(length=corners, dtype=wp.int32)

    # A fraction and its axis are sorted as one integer: the fraction in the high bits, in the low
    # bits a label that is larger for lower axes, so that ties go to the lower axis.
    axis_bits = dim.bit_length()
    shift = wp.int64(axis_bits)
    label_mask = wp.int64((1 << axis_bits) - 1)
    label = Long(*reversed(range(dim)))
    up = wp.float64(2.0 ** (62 - axis_bits))
    down = wp.float64(2.0 ** (axis_bits - 62))

    @wp.func
    def elevate(f: Feature, scale: Real, subdiagonal: Real):
        """Grid coordinates ``u`` of a point, in float64 so that large ones keep their
        fraction."""
        u = Real()
        suffix = wp.float64(f[dim - 1]) * subdiagonal[0]
        for i in range(dim):
            suffix += wp.float64(f[dim - 1 - i]) * scale[dim - 1 - i]
            u[dim - 1 - i] = suffix
        for j in range(1, dim):
            u[j] = u[j] - wp.float64(f[j - 1]) * subdiagonal[j]
        return u

    @wp.func
    def split(u: Real):
        """``floor(u)``, and the fractions with the labels of their axes in descending order."""
        order = Long()
        for j in range(dim):
            floor = wp.floor(u[j])
            order[j] = (wp.int64((u[j] - floor) * up) << shift) | label[j]
            u[j] = floor
        # Odd-even transposition sort: branch-free, and the loops unroll.
        for step in range(dim):
            for pair in range(half):
                low = 2 * pair + step % 2
                if low + 1 < dim:
                    first = order[low]
                    second = order[low + 1]
                    order[low] = wp.max(first, second)
                    order[low + 1] = wp.min(first, second)
        return u, order

    @wp.func
    def barycentric(order: Long):
        """Weights of the corners, starting at ``floor(u)``."""
        weight = Weight()
        previous = wp.float64(1.0)
        for k in range(dim):
            fraction = wp.float64(order[k] >> shift) * down
            weight[k] = dtype(previous - fraction)
            previous = fraction
        weight[dim] = dtype(previous)
        return weight

    @wp.func
    def axis_label(item: wp.int64):
        """Label of the axis of a sorted fraction: ``dim - 1 - axis``, never negative."""
        return int(item & label_mask)

    return SimpleNamespace(
        Real=Real,
        Long=Long,
        Feature=Feature,
        Weight=Weight,
        Vertex=Vertex,
        elevate=elevate,
        split=split,
        barycentric=barycentric,
        axis_label=axis_label,
    )
