"""Fused embedding of points and marking of the codes of their corners, for small boxes."""

import warp as wp

from permutogeo.kernels import simplex
from permutogeo.kernels.build import code_functions
from permutogeo.kernels.module import kernel
from permutogeo.kernels.unstrided import reader, writer

# Several threads may set a mark at once.
_SET = """
#ifndef __CUDA_ARCH__
    assert(index >= 0 && index < marks.shape[0]);
    __atomic_store_n(marks.data + index, 1, __ATOMIC_RELAXED);
#endif
"""


def add(module: wp.Module, dim: int, dtype: type, words: int) -> wp.Kernel:
    """Add the kernel to a module, that of insertion, which has the same functions."""
    point, coding = simplex.make(dim, dtype), code_functions(dim, dtype, words)
    Real, Feature, Weight, Vertex = point.Real, point.Feature, point.Weight, point.Vertex
    elevate, split, barycentric = point.elevate, point.split, point.barycentric
    axis_label, Code, encode = point.axis_label, coding.Code, coding.encode
    get_feature, get_code = reader(Feature), reader(Code)
    put_weight, put_vertex = writer(Weight), writer(Vertex)
    corners = dim + 1

    @wp.func_native(_SET)
    def set_mark(marks: wp.array1d(dtype=wp.uint8), index: int): ...

    @kernel(module)
    def mark(
        start: int,
        feature: wp.array1d(dtype=Feature),  # [N]
        graph: wp.array1d(dtype=wp.int64),  # [N], or empty for one graph
        scale: Real,
        subdiagonal: Real,
        low: Real,
        stride: wp.array1d(dtype=Code),  # [dim + 1]
        step: wp.array1d(dtype=Code),  # [dim], by axis label
        marks: wp.array1d(dtype=wp.uint8),  # [codes], in and out
        weight: wp.array1d(dtype=Weight),  # [N], out
        vertex: wp.array1d(dtype=Vertex),  # [N], out: codes of the corners
    ):
        """Embed points and mark the codes of their corners, of one word below 2^31. A thread owns
        a point."""
        i = wp.tid() + start
        floor, order = split(elevate(get_feature(feature, i), scale, subdiagonal))
        put_weight(weight, i, barycentric(order))
        corner = encode(floor, low, stride, graph, i)
        row = Vertex()
        for k in range(corners):
            row[k] = int(corner[0])
            set_mark(marks, row[k])
            if k < dim:
                corner += get_code(step, axis_label(order[k]))
        put_vertex(vertex, i, row)

    return mark
