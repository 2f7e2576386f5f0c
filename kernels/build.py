"""Points to barycentric weights and vertices: fused embedding and hash insertion with one table
per thread, codes for one shared table, and look-up on an existing lattice."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels import simplex, table
from permutogeo.kernels.module import kernel, named

# Points whose corners are embedded before they are inserted, so that the slots are in the cache.
CHUNK = 16


@cache
def make(dim: int, dtype: type, words: int) -> SimpleNamespace:
    module = named("build", dim, dtype, words)
    point = simplex.make(dim, dtype)
    hashing = table.functions(words)
    Real, Feature, Weight, Vertex = point.Real, point.Feature, point.Weight, point.Vertex
    Code, first_slot, next_slot = hashing.Code, hashing.first_slot, hashing.next_slot
    elevate, split, barycentric = point.elevate, point.split, point.barycentric
    axis_label = point.axis_label
    prefetch_slot, prefetch_code = hashing.prefetch_slot, hashing.prefetch_code
    corners = dim + 1
    chunk = CHUNK

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
            code += wp.int64(floor[j] - low[j]) * stride[j]
        if graph.shape[0] > 0:
            code += graph[i] * stride[dim]
        return code

    @wp.func
    def enter(
        corner: Code,
        t: int,
        n: int,
        shift: int,
        slots: wp.array2d(dtype=wp.int32),
        code: wp.array2d(dtype=Code),
    ):
        """Index of a code in the list of table ``t``, which is ``n`` if it is entered."""
        mask = slots.shape[1] - 1
        slot = first_slot(corner, shift)
        index = slots[t, slot]
        while index >= 0 and not (code[t, index] == corner):
            slot = next_slot(slot, mask)
            index = slots[t, slot]
        if index < 0:
            slots[t, slot] = n
            code[t, n] = corner
            index = n
        return index

    @kernel(module)
    def insert(
        start: int,
        feature: wp.array1d(dtype=Feature),  # [N]
        graph: wp.array1d(dtype=wp.int64),  # [N], or empty for one graph
        scale: Real,
        subdiagonal: Real,
        low: Real,
        stride: wp.array1d(dtype=Code),  # [dim + 1]
        step: wp.array1d(dtype=Code),  # [dim], by axis label
        end: wp.array1d(dtype=wp.int64),  # [tables]
        shift: int,
        limit: int,
        slots: wp.array2d(dtype=wp.int32),  # [tables, capacity], in and out
        code: wp.array2d(dtype=Code),  # [tables, limit + CHUNK x corners], in and out
        count: wp.array1d(dtype=wp.int32),  # [tables], in and out
        progress: wp.array1d(dtype=wp.int64),  # [tables], in and out: next point
        wanted: wp.array2d(dtype=Code),  # [tables, CHUNK x corners], not used
        weight: wp.array1d(dtype=Weight),  # [N], out
        vertex: wp.array1d(dtype=Vertex),  # [N], out: index in the table's own list
    ):
        """Embed a run of points and insert their corners into the run's table. A thread owns a run
        and its table.

        Returns at the end of the run, or early once the table holds more than ``limit`` codes, for
        the caller to grow it.
        """
        t = wp.tid() + start
        n = count[t]
        i = int(progress[t])
        last = int(end[t])
        while i < last and n <= limit:
            floor, order = split(elevate(feature[i], scale, subdiagonal))
            weight[i] = barycentric(order)
            corner = encode(floor, low, stride, graph, i)
            row = Vertex()
            for k in range(corners):
                index = enter(corner, t, n, shift, slots, code)
                if index == n:
                    n += 1
                row[k] = index
                if k < dim:
                    corner += step[axis_label(order[k])]
            vertex[i] = row
            i += 1
        progress[t] = wp.int64(i)
        count[t] = n

    @kernel(module)
    def insert_chunks(
        start: int,
        feature: wp.array1d(dtype=Feature),  # [N]
        graph: wp.array1d(dtype=wp.int64),  # [N], or empty for one graph
        scale: Real,
        subdiagonal: Real,
        low: Real,
        stride: wp.array1d(dtype=Code),  # [dim + 1]
        step: wp.array1d(dtype=Code),  # [dim], by axis label
        end: wp.array1d(dtype=wp.int64),  # [tables]
        shift: int,
        limit: int,
        slots: wp.array2d(dtype=wp.int32),  # [tables, capacity], in and out
        code: wp.array2d(dtype=Code),  # [tables, limit + CHUNK x corners], in and out
        count: wp.array1d(dtype=wp.int32),  # [tables], in and out
        progress: wp.array1d(dtype=wp.int64),  # [tables], in and out: next point
        wanted: wp.array2d(dtype=Code),  # [tables, CHUNK x corners], workspace
        weight: wp.array1d(dtype=Weight),  # [N], out
        vertex: wp.array1d(dtype=Vertex),  # [N], out: index in the table's own list
    ):
        """The same for tables that do not fit the cache: slots and codes of a few points are
        prefetched before they are read."""
        t = wp.tid() + start
        n = count[t]
        first = int(progress[t])
        last = int(end[t])
        while first < last and n <= limit:
            points = wp.min(chunk, last - first)
            for p in range(points):
                i = first + p
                floor, order = split(elevate(feature[i], scale, subdiagonal))
                weight[i] = barycentric(order)
                corner = encode(floor, low, stride, graph, i)
                for k in range(corners):
                    wanted[t, p * corners + k] = corner
                    prefetch_slot(slots, t, first_slot(corner, shift))
                    if k < dim:
                        corner += step[axis_label(order[k])]
            for c in range(points * corners):
                index = slots[t, first_slot(wanted[t, c], shift)]
                prefetch_code(code, t, wp.max(index, 0))
            for p in range(points):
                row = Vertex()
                for k in range(corners):
                    corner = wanted[t, p * corners + k]
                    index = enter(corner, t, n, shift, slots, code)
                    if index == n:
                        n += 1
                    row[k] = index
                vertex[first + p] = row
            first += points
        progress[t] = wp.int64(first)
        count[t] = n

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
        insert=insert,
        insert_chunks=insert_chunks,
        codes=codes,
        locate=locate,
    )
