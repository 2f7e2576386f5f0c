"""Range of the features, and the derivative of the barycentric weights in them."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels import simplex
from permutogeo.kernels.module import kernel, named


@cache
def make(dim: int, dtype: type) -> SimpleNamespace:
    module = named("embed", dim, dtype)
    point = simplex.make(dim, dtype)
    Real, Feature, Weight = point.Real, point.Feature, point.Weight
    elevate, split, axis_label = point.elevate, point.split, point.axis_label
    zero = dtype(0.0)

    @kernel(module)
    def bounds(
        start: int,
        chunk: int,
        feature: wp.array1d(dtype=Feature),  # [N]
        low: wp.array1d(dtype=Feature),  # [chunks], out
        high: wp.array1d(dtype=Feature),  # [chunks], out
        poison: wp.array1d(dtype=Feature),  # [chunks], out: NaN where a value is not finite
    ):
        """Range of the features. A thread owns a chunk of points."""
        t = wp.tid() + start
        first = t * chunk
        least = feature[first]
        most = least
        bad = least * zero
        for i in range(first + 1, wp.min(first + chunk, feature.shape[0])):
            f = feature[i]
            least = wp.min(least, f)
            most = wp.max(most, f)
            bad += f * zero
        low[t] = least
        high[t] = most
        poison[t] = bad

    @kernel(module)
    def tangent(
        start: int,
        feature: wp.array1d(dtype=Feature),  # [N]
        direction: wp.array1d(dtype=Feature),  # [N]
        scale: Real,
        subdiagonal: Real,
        out: wp.array1d(dtype=Weight),  # [N], out
    ):
        """Directional derivative of the weights. A thread owns a point."""
        i = wp.tid() + start
        _floor, order = split(elevate(feature[i], scale, subdiagonal))
        du = elevate(direction[i], scale, subdiagonal)
        weight = Weight()
        previous = wp.float64(0.0)
        for k in range(dim):
            slope = du[dim - 1 - axis_label(order[k])]
            weight[k] = dtype(previous - slope)
            previous = slope
        weight[dim] = dtype(previous)
        out[i] = weight

    @kernel(module)
    def adjoint(
        start: int,
        feature: wp.array1d(dtype=Feature),  # [N]
        grad: wp.array1d(dtype=Weight),  # [N]
        scale: Real,
        subdiagonal: Real,
        out: wp.array1d(dtype=Feature),  # [N], out
    ):
        """Transpose of ``tangent``. A thread owns a point."""
        i = wp.tid() + start
        _floor, order = split(elevate(feature[i], scale, subdiagonal))
        g = grad[i]
        du = Real()
        for k in range(dim):
            du[dim - 1 - axis_label(order[k])] = wp.float64(g[k + 1]) - wp.float64(g[k])
        result = Feature()
        prefix = wp.float64(0.0)
        for j in range(dim):
            prefix += du[j]
            slope = scale[j] * prefix
            if j + 1 < dim:
                slope -= subdiagonal[j + 1] * du[j + 1]
            else:
                slope += subdiagonal[0] * prefix
            result[j] = dtype(slope)
        out[i] = result

    return SimpleNamespace(
        module=module, Real=Real, bounds=bounds, tangent=tangent, adjoint=adjoint
    )
