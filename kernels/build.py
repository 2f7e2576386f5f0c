"""Points to barycentric weights and codes, and look-up on an existing lattice."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels import simplex, table
from permutogeo.kernels.module import kernel, named
from permutogeo.kernels.unstrided import reader


@cache
def code_functions(dim: int, dtype: type, words: int) -> SimpleNamespace:
    """Return the code type of lattice points, its hash, and the code of a point's lowest corner."""
    hashing, Real = table.functions(words), simplex.make(dim, dtype).Real
    Code = hashing.Code
    get_code = reader(Code)

    @wp.func
    def encode(
        floor: Real,
        low: Real,
        stride: wp.array1d(dtype=Code),
        graph: wp.array1d(dtype=wp.int64),
        i: int,
    ):
        """Code of the lowest corner; row ``dim`` of ``stride`` belongs to the graph."""
        code = Code()
        for j in range(dim):
            code += wp.int64(floor[j] - low[j]) * get_code(stride, j)
        if graph.shape[0] > 0:
            code += graph[i] * get_code(stride, dim)
        return code

    return SimpleNamespace(encode=encode, **vars(hashing))


@cache
def make(dim: int, dtype: type, words: int) -> SimpleNamespace:
    module = named("build", dim, dtype, words)
    point = simplex.make(dim, dtype)
    coding = code_functions(dim, dtype, words)
    Real, Feature, Weight, Vertex = point.Real, point.Feature, point.Weight, point.Vertex
    Code, first_slot, next_slot = coding.Code, coding.first_slot, coding.next_slot
    elevate, split, barycentric = point.elevate, point.split, point.barycentric
    axis_label, encode = point.axis_label, coding.encode
    corners = dim + 1

    @kernel(module)
    def codes(
        start: int,
        feature: wp.array1d(dtype=Feature),  # [N]
        graph: wp.array1d(dtype=wp.int64),  # [N], or empty for one graph
        scale: Real,
        subdiagonal: Real,
        low: Real,
        stride: wp.array1d(dtype=Code),  # [dim + 1]
        step: wp.array1d(dtype=Code),  # [dim], by axis label
        weight: wp.array1d(dtype=Weight),  # [N], out
        code: wp.array2d(dtype=Code),  # [N, corners], out
    ):
        """Weights and codes of all corners. A thread owns a point."""
        i = wp.tid() + start
        floor, order = split(elevate(feature[i], scale, subdiagonal))
        weight[i] = barycentric(order)
        corner = encode(floor, low, stride, graph, i)
        for k in range(corners):
            code[i, k] = corner
            if k < dim:
                corner += step[axis_label(order[k])]

    @kernel(module)
    def locate(
        start: int,
        feature: wp.array1d(dtype=Feature),  # [N]
        graph: wp.array1d(dtype=wp.int64),  # [N], or empty for one graph
        scale: Real,
        subdiagonal: Real,
        box: wp.array2d(dtype=wp.int64),  # [dim + 1, 2 + words]: low, extent, ...
        stride: wp.array1d(dtype=Code),  # [dim + 1]
        step: wp.array1d(dtype=Code),  # [dim], by axis label
        lattice_code: wp.array1d(dtype=Code),  # [M]
        shift: int,
        slots: wp.array1d(dtype=wp.int32),  # [capacity]
        weight: wp.array1d(dtype=Weight),  # [N], out
        vertex: wp.array1d(dtype=Vertex),  # [N], out, -1 where a corner is not on the lattice
    ):
        """Weights and vertices of points on an existing lattice. A thread owns a point."""
        i = wp.tid() + start
        mask = slots.shape[0] - 1
        floor, order = split(elevate(feature[i], scale, subdiagonal))
        weight[i] = barycentric(order)
        # The box is padded: a point whose corners leave it has none of them on the lattice, and
        # their codes would alias other lattice points.
        inside = bool(True)
        low = Real()
        for j in range(dim):
            low[j] = wp.float64(box[j, 0])
            relative = floor[j] - low[j]
            inside = inside and relative >= wp.float64(0.0)
            inside = inside and relative + wp.float64(1.0) < wp.float64(box[j, 1])
        if graph.shape[0] > 0:
            inside = inside and graph[i] < box[dim, 1]
        row = Vertex()
        if inside:
            corner = encode(floor, low, stride, graph, i)
            for k in range(corners):
                slot = first_slot(corner, shift)
                index = slots[slot]
                while index >= 0 and not (lattice_code[index] == corner):
                    slot = next_slot(slot, mask)
                    index = slots[slot]
                row[k] = index
                if k < dim:
                    corner += step[axis_label(order[k])]
        else:
            for k in range(corners):
                row[k] = -1
        vertex[i] = row

    return SimpleNamespace(
        module=module,
        Real=Real,
        codes=codes,
        locate=locate,
    )
