"""Points to barycentric weights and rows of tables of fixed size, one for each level."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels import simplex
from permutogeo.kernels.module import kernel, named


@cache
def make(dim: int, dtype: type) -> SimpleNamespace:
    module = named("hash_locate", dim, dtype)
    point = simplex.make(dim, dtype)
    Real, Feature, Weight, Vertex = point.Real, point.Feature, point.Weight, point.Vertex
    elevate, split, barycentric = point.elevate, point.split, point.barycentric
    axis_label = point.axis_label
    Grid = wp.types.vector(length=dim, dtype=wp.int64)
    corners = dim + 1
    golden = wp.uint64(0x9E3779B97F4A7C15)
    fold = wp.uint64(32)

    @wp.func
    def table_row(corner: Grid, width: Grid, size: wp.int64, dense: wp.int64):
        """Row of a lattice point: its coordinates modulo the widths, or a hash."""
        if dense > wp.int64(0):
            index = wp.int64(0)
            for j in range(dim):
                wrapped = corner[j] % width[j]
                if wrapped < wp.int64(0):
                    wrapped += width[j]
                index = index * width[j] + wrapped
            return index
        h = wp.uint64(0)
        for j in range(dim):
            h = (h ^ wp.uint64(corner[j])) * golden
            h = h ^ (h >> fold)
        return wp.int64(h % wp.uint64(size))

    @kernel(module)
    def locate(
        start: int,
        feature: wp.array1d(dtype=Feature),  # [N]
        level: wp.array1d(dtype=wp.int64),  # [N]
        scale: Real,
        subdiagonal: Real,
        width: wp.array1d(dtype=Grid),  # [L]
        table: wp.array2d(dtype=wp.int64),  # [L, 3]: first row, number of rows, dense or not
        weight: wp.array1d(dtype=Weight),  # [N], out
        row: wp.array1d(dtype=Vertex),  # [N], out
    ):
        """Weights and table rows of all corners. A thread owns a point."""
        i = wp.tid() + start
        a = int(level[i])
        floor, order = split(elevate(feature[i], scale, subdiagonal))
        weight[i] = barycentric(order)
        corner = Grid()
        for j in range(dim):
            corner[j] = wp.int64(floor[j])
        rows = Vertex()
        for k in range(corners):
            index = table_row(corner, width[a], table[a, 1], table[a, 2])
            rows[k] = int(table[a, 0] + index)
            if k < dim:
                axis = dim - 1 - axis_label(order[k])
                for j in range(dim):  # not by `axis`: registers have no index at run time
                    corner[j] = corner[j] + wp.int64(j == axis)
        row[i] = rows

    return SimpleNamespace(module=module, Real=Real, locate=locate)
