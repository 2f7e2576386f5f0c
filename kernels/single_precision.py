"""Points of which the single-precision elevation of pydensecrf finds the same simplices."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels.module import NOT_NEGATIVE, kernel, named


@cache
def make(dim: int) -> SimpleNamespace:
    module = named("single_precision", dim)
    not_negative = NOT_NEGATIVE
    Scale = wp.types.vector(length=dim, dtype=wp.float32)
    Real = wp.types.vector(length=dim, dtype=wp.float64)
    Elevated = wp.types.vector(length=dim + 1, dtype=wp.float32)

    @kernel(module)
    def replicate(
        start: int,
        scale: Scale,  # of the elevation
        inverse: Real,  # of the projection back
        offset: wp.float64,
        feature: wp.array2d(dtype=wp.float32),  # [d, N]
        out: wp.array1d(dtype=Real),  # [N], out
    ):
        """Elevate points, rounded to float32 after each operation, offset them along each axis and
        project them back. A thread owns a point.

        The columns of Adams' elevation are orthogonal, so its transpose inverts it: along axis j,
        the sum of the first j coordinates minus j times the next.
        """
        i = (wp.tid() + start) & not_negative
        elevated = Elevated()
        above = float(0.0)
        for k in range(dim):
            step = feature[dim - 1 - k, i] * scale[dim - 1 - k]
            elevated[dim - k] = above - float(dim - k) * step
            above += step
        sum = wp.float64(above)
        result = Real()
        for j in range(dim):
            factor = wp.float64(j + 1)
            here = wp.float64(elevated[j + 1]) - factor * offset
            result[j] = (sum - factor * here) * inverse[j]
            sum += here
        out[i] = result

    return SimpleNamespace(module=module, Scale=Scale, Real=Real, replicate=replicate)
