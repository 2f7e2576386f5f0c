"""Derivative of the barycentric weights in the features."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels import simplex
from permutogeo.kernels.module import kernel, named

# Registers of a GPU have no index at run time.
_COMPONENT = """
#ifdef __CUDA_ARCH__
    auto value = vector[0];
    #pragma unroll
    for (int j = 1; j < {dim}; ++j)
        value = j == index ? vector[j] : value;
    return value;
#else
    return vector[index];
#endif
"""


@cache
def make(dim: int, dtype: type) -> SimpleNamespace:
    module = named("embed", dim, dtype)
    point = simplex.make(dim, dtype)
    Real, Feature, Weight = point.Real, point.Feature, point.Weight
    elevate, split, axis_label = point.elevate, point.split, point.axis_label

    @wp.func_native(_COMPONENT.format(dim=dim))
    def component(vector: Real, index: int) -> wp.float64: ...

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
            slope = component(du, dim - 1 - axis_label(order[k]))
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
            axis = dim - 1 - axis_label(order[k])
            step = wp.float64(g[k + 1]) - wp.float64(g[k])
            for j in range(dim):
                du[j] = wp.where(j == axis, step, du[j])
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

    return SimpleNamespace(module=module, Real=Real, tangent=tangent, adjoint=adjoint)
