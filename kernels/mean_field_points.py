"""Corners of the points of mean field, the places that their runs splat into, normalization."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels.module import kernel, named
from permutogeo.kernels.unstrided import reader, writer

# Powers of the response to ones that `scale` multiplies weights by.
NONE, RECIPROCAL, RECIPROCAL_ROOT = range(3)
# Added to the response to ones, as in `lattice/normalization.py`.
_EPSILON = 1e-20


@cache
def make_slots(corners: int) -> SimpleNamespace:
    """Return the kernels for ``corners`` per point on all lattices."""
    module = named("mean_field_slots", corners)
    Weight = wp.types.vector(length=corners, dtype=wp.float32)
    Vertex = wp.types.vector(length=corners, dtype=wp.int32)
    integer, put_integer = reader(wp.int32), writer(wp.int32)
    number_at, put_number = reader(wp.float32), writer(wp.float32)
    get_vertex, put_vertex, get_weight = reader(Vertex), writer(Vertex), reader(Weight)

    @kernel(module)
    def number(
        start: int,
        workers: int,
        rows: int,  # vertices of all lattices
        runs: wp.array1d(dtype=wp.int32),  # [R + 1]: edges of the runs of points
        vertex: wp.array1d(
            dtype=Vertex
        ),  # [N], in: vertices, out: slots after the first of the run
        table: wp.array1d(dtype=wp.int32),  # [workers x rows], zeroed by the caller, and left so
        visited: wp.array1d(dtype=wp.int32),  # [N x corners], out: vertices of the slots of a run
        size: wp.array1d(dtype=wp.int32),  # [R], out: slots of each run
    ):
        """Number the vertices of each run in the order of their first points. A thread owns a table
        and every so many runs."""
        worker = wp.tid() + start
        offset = worker * rows
        r = int(worker)
        while r + 1 < runs.shape[0]:
            first = integer(runs, r)
            last = integer(runs, r + 1)
            n = int(0)
            i = int(first)
            while i < last:
                corner = get_vertex(vertex, i)
                for k in range(corners):
                    v = corner[k]
                    found = integer(table, offset + v)
                    # Without a branch, which no processor would predict: entered for now.
                    put_integer(visited, first * corners + n, v)
                    n += wp.where(found > 0, 0, 1)
                    found = wp.where(found > 0, found, n)
                    put_integer(table, offset + v, found)
                    corner[k] = found - 1
                put_vertex(vertex, i, corner)
                i += 1
            put_integer(size, r, n)
            s = int(0)
            while s < n:
                put_integer(table, offset + integer(visited, first * corners + s), 0)
                s += 1
            r += workers

    @kernel(module)
    def ones(
        start: int,
        runs: wp.array1d(dtype=wp.int32),  # [R + 1]: edges of the runs of points
        base: wp.array1d(dtype=wp.int32),  # [R]: first slot of each run
        slot: wp.array1d(dtype=Vertex),  # [N], after the first slot of the run
        weight: wp.array1d(dtype=Weight),  # [N]
        sums: wp.array1d(dtype=wp.float32),  # [S], out, zeroed by the caller
    ):
        """Splat ones. A thread owns a run."""
        t = wp.tid() + start
        begin = integer(base, t)
        last = integer(runs, t + 1)
        i = int(integer(runs, t))
        while i < last:
            s = get_vertex(slot, i)
            w = get_weight(weight, i)
            for k in range(corners):
                put_number(sums, begin + s[k], number_at(sums, begin + s[k]) + w[k])
            i += 1

    return SimpleNamespace(module=module, number=number, ones=ones)


@cache
def make_corners(corners: int, dtype: type) -> SimpleNamespace:
    """Return the kernels for the corners on one lattice, with weights given in ``dtype``."""
    module = named("mean_field_corners", corners, dtype)
    Given = wp.types.vector(length=corners, dtype=dtype)
    Weight = wp.types.vector(length=corners, dtype=wp.float32)
    Vertex = wp.types.vector(length=corners, dtype=wp.int32)
    get_given, get_given_vertex = reader(Given), reader(Vertex)
    number = reader(wp.float32)
    epsilon = _EPSILON
    reciprocal, root = RECIPROCAL, RECIPROCAL_ROOT

    @kernel(module)
    def join(
        start: int,
        row: int,  # row of the first vertex
        given_vertex: wp.array1d(dtype=Vertex),  # [N]
        given: wp.array1d(dtype=Given),  # [N]
        vertex: wp.array1d(dtype=Vertex),  # [N], out, columns of the corners on all lattices
        weight: wp.array1d(dtype=Weight),  # [N], out, as well
    ):
        """Copy corners next to those on other lattices. A thread owns a point."""
        i = wp.tid() + start
        v = get_given_vertex(given_vertex, i)
        w = get_given(given, i)
        out = Weight()
        for k in range(corners):
            v[k] = v[k] + row
            out[k] = wp.float32(w[k])
        vertex[i] = v
        weight[i] = out

    @wp.func
    def factor(power: int, response: float):
        result = float(1.0)
        if power == reciprocal:
            result = 1.0 / (response + epsilon)
        if power == root:
            result = 1.0 / wp.sqrt(response + epsilon)
        if power > 0 and response <= 0.0:
            result = float(0.0)
        return result

    @kernel(module)
    def scale(
        start: int,
        before: int,  # power of the response on the input, and on the output
        after: int,
        vertex: wp.array1d(dtype=Vertex),  # [N]
        response: wp.array1d(dtype=wp.float32),  # [M], at vertices
        source: wp.array1d(dtype=Weight),  # [N], columns of this lattice, in and out
        target: wp.array1d(dtype=Weight),  # [N], out; may be ``source`` if the powers are equal
    ):
        """Multiply weights by powers of the response to ones at the points. A thread owns a
        point."""
        i = wp.tid() + start
        v = get_given_vertex(vertex, i)
        w = source[i]
        total = float(0.0)
        for k in range(corners):
            total += w[k] * number(response, v[k])
        target[i] = factor(after, total) * w
        source[i] = factor(before, total) * w

    return SimpleNamespace(module=module, join=join, scale=scale)


@cache
def make_lists() -> SimpleNamespace:
    """Return the kernels on the slots of vertices, for any number of corners."""
    module = named("mean_field_lists")
    integer, put_integer = reader(wp.int32), writer(wp.int32)

    @kernel(module)
    def assemble(
        start: int,
        first: int,  # row of the first vertex of a lattice
        owner: wp.array1d(dtype=wp.int32),  # [S]: row of the vertex of each slot, -1 for none
        main: wp.array1d(dtype=wp.int32),  # [M], in and out, S or more where no slot is known
        into: wp.array1d(dtype=wp.int32),  # [E], out: slots of vertices of several runs
        extra: wp.array1d(dtype=wp.int32),  # [E], out: slots to add to them, in the order of runs
        count: wp.array1d(dtype=wp.int32),  # [1], out: how many
    ):
        """List the slots of the vertices of one lattice. For one thread."""
        slots = owner.shape[0]
        n = int(0)
        s = int(0)
        while s < slots:
            v = integer(owner, s) - first
            if v >= 0 and v < main.shape[0]:
                known = integer(main, v)
                if known < slots:
                    put_integer(into, n, known)
                    put_integer(extra, n, s)
                    n += 1
                else:
                    put_integer(main, v, s)
            s += 1
        put_integer(count, 0, n)

    return SimpleNamespace(module=module, assemble=assemble)
