"""Maximum over the rows at each vertex, and what its derivative needs.

``x`` has a row for each point, ``most`` one for each vertex. ``order`` and ``begin`` are the
corners sorted by vertex (see ``ops/plan.py``).
"""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels import rows
from permutogeo.kernels.module import NOT_NEGATIVE, kernel, named

# Rows of a thread on the CPU, which reads the arguments of a launch again for each index.
OWNED = 16


@cache
def make(corners: int, dtype: type) -> SimpleNamespace:
    module = named("segment_max", corners, dtype)
    Row16, Row4, Row1 = rows.types(dtype)
    owned, ahead, prefetch = OWNED, rows.AHEAD, rows.prefetch(dtype)
    largest16, largest4, largest1 = rows.per_block(dtype, lambda Row: _largest(Row, corners))
    sums = rows.per_block(dtype, lambda Row: _sum_attaining(Row, corners, dtype))
    sum16, sum4, sum1 = sums
    share16, share4, share1 = rows.per_block(dtype, lambda Row: _share(Row, corners, dtype))
    spread16, spread4, spread1 = rows.per_block(dtype, lambda Row: _spread(Row, corners, dtype))

    @wp.func
    def prefetch_next(
        x: wp.array2d(dtype=Row16),
        v: int,
        begin: wp.array1d(dtype=wp.int32),
        order: wp.array1d(dtype=wp.int32),
    ):
        for e in range(begin[v] + ahead, wp.min(begin[v + 1] + ahead, order.shape[0])):
            prefetch(x, order[e] / corners)

    @kernel(module)
    def maximum(
        start: int,
        begin: wp.array1d(dtype=wp.int32),  # [M + 1] or longer
        order: wp.array1d(dtype=wp.int32),  # point * corners + corner, sorted by vertex
        x16: wp.array2d(dtype=Row16),  # [N, C]
        x4: wp.array2d(dtype=Row4),
        x1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [M, C], out
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """Maximum over the points at a vertex, 0 without any. A thread owns ``OWNED`` vertices."""
        first = (wp.tid() + start) * owned
        for v in range(first, wp.min(first + owned, out1.shape[0])):
            largest16(x16, v, begin, order, out16)
            largest4(x4, v, begin, order, out4)
            largest1(x1, v, begin, order, out1)

    @kernel(module)
    def attaining(
        start: int,
        begin: wp.array1d(dtype=wp.int32),  # [M + 1] or longer
        order: wp.array1d(dtype=wp.int32),  # point * corners + corner, sorted by vertex
        term16: wp.array2d(dtype=Row16),  # [N, C]
        term4: wp.array2d(dtype=Row4),
        term1: wp.array2d(dtype=Row1),
        x16: wp.array2d(dtype=Row16),  # [N, C]
        x4: wp.array2d(dtype=Row4),
        x1: wp.array2d(dtype=Row1),
        most16: wp.array2d(dtype=Row16),  # [M, C]
        most4: wp.array2d(dtype=Row4),
        most1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [M, C], out
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """Sum of ``term`` over the points that attain the maximum. A thread owns ``OWNED``
        vertices."""
        first = (wp.tid() + start) * owned
        for v in range(first, wp.min(first + owned, out1.shape[0])):
            sum16(term16, x16, most16, v, begin, order, out16)
            sum4(term4, x4, most4, v, begin, order, out4)
            sum1(term1, x1, most1, v, begin, order, out1)

    @kernel(module)
    def share(
        start: int,
        begin: wp.array1d(dtype=wp.int32),  # [M + 1] or longer
        order: wp.array1d(dtype=wp.int32),  # point * corners + corner, sorted by vertex
        grad16: wp.array2d(dtype=Row16),  # [M, C]
        grad4: wp.array2d(dtype=Row4),
        grad1: wp.array2d(dtype=Row1),
        x16: wp.array2d(dtype=Row16),  # [N, C]
        x4: wp.array2d(dtype=Row4),
        x1: wp.array2d(dtype=Row1),
        most16: wp.array2d(dtype=Row16),  # [M, C]
        most4: wp.array2d(dtype=Row4),
        most1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [M, C], out
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """``grad`` divided by the number of points that attain the maximum, and one more where it
        is zero. A thread owns ``OWNED`` vertices."""
        first = (wp.tid() + start) * owned
        for v in range(first, wp.min(first + owned, out1.shape[0])):
            prefetch_next(x16, v, begin, order)
            share16(grad16, x16, most16, v, begin, order, out16)
            share4(grad4, x4, most4, v, begin, order, out4)
            share1(grad1, x1, most1, v, begin, order, out1)

    @kernel(module)
    def spread(
        start: int,
        vertex: wp.array2d(dtype=wp.int32),  # [N, corners], M where absent
        part16: wp.array2d(dtype=Row16),  # [M, C]
        part4: wp.array2d(dtype=Row4),
        part1: wp.array2d(dtype=Row1),
        x16: wp.array2d(dtype=Row16),  # [N, C]
        x4: wp.array2d(dtype=Row4),
        x1: wp.array2d(dtype=Row1),
        most16: wp.array2d(dtype=Row16),  # [M, C]
        most4: wp.array2d(dtype=Row4),
        most1: wp.array2d(dtype=Row1),
        out16: wp.array2d(dtype=Row16),  # [N, C], out
        out4: wp.array2d(dtype=Row4),
        out1: wp.array2d(dtype=Row1),
    ):
        """Transpose of ``attaining``. A thread owns ``OWNED`` points."""
        first = (wp.tid() + start) * owned
        for i in range(first, wp.min(first + owned, out1.shape[0])):
            spread16(part16, x16, most16, i, vertex, out16)
            spread4(part4, x4, most4, i, vertex, out4)
            spread1(part1, x1, most1, i, vertex, out1)

    return SimpleNamespace(
        module=module, maximum=maximum, attaining=attaining, share=share, spread=spread
    )


@cache
def make_gpu(corners: int, dtype: type, lanes: int) -> SimpleNamespace:
    module = named("segment_max_gpu", corners, dtype, lanes)
    not_negative, zero = NOT_NEGATIVE, dtype(0.0)
    Row, load, store = rows.gpu_block(dtype, lanes)

    @kernel(module)
    def maximum(
        start: int,
        begin: wp.array1d(dtype=wp.int32),  # [M + 1] or longer
        order: wp.array1d(dtype=wp.int32),  # point * corners + corner, sorted by vertex
        x: wp.array2d(dtype=Row),  # [N, blocks]
        out: wp.array2d(dtype=Row),  # [M, blocks], out
    ):
        """Maximum over the points at a vertex, 0 without any. A thread owns a block of a vertex's
        row."""
        t, b = wp.tid()
        v = t + start
        first = begin[v]
        most = Row()
        if begin[v + 1] > first:
            most = load(x, (order[first] & not_negative) / corners, b)
        for e in range(first + 1, begin[v + 1]):
            row = load(x, (order[e] & not_negative) / corners, b)
            for c in range(lanes):
                # NaN replaces any number and stays.
                replaces = row[c] > most[c] or row[c] != row[c]
                most[c] = wp.where(replaces, row[c], most[c])
        store(out, v, b, most)

    @kernel(module)
    def attaining(
        start: int,
        begin: wp.array1d(dtype=wp.int32),  # [M + 1] or longer
        order: wp.array1d(dtype=wp.int32),  # point * corners + corner, sorted by vertex
        term: wp.array2d(dtype=Row),  # [N, blocks]
        x: wp.array2d(dtype=Row),  # [N, blocks]
        most: wp.array2d(dtype=Row),  # [M, blocks]
        out: wp.array2d(dtype=Row),  # [M, blocks], out
    ):
        """Sum of ``term`` over the points that attain the maximum. A thread owns a block of a
        vertex's row."""
        t, b = wp.tid()
        v = t + start
        top = load(most, v, b)
        total = Row()
        for e in range(begin[v], begin[v + 1]):
            i = (order[e] & not_negative) / corners
            row = load(x, i, b)
            each = load(term, i, b)
            for c in range(lanes):
                total[c] = total[c] + wp.where(row[c] == top[c], each[c], zero)
        store(out, v, b, total)

    @kernel(module)
    def spread(
        start: int,
        vertex: wp.array2d(dtype=wp.int32),  # [N, corners], M where absent
        part: wp.array2d(dtype=Row),  # [M, blocks]
        x: wp.array2d(dtype=Row),  # [N, blocks]
        most: wp.array2d(dtype=Row),  # [M, blocks]
        out: wp.array2d(dtype=Row),  # [N, blocks], out
    ):
        """Transpose of ``attaining``. A thread owns a block of a point's row."""
        t, b = wp.tid()
        i = t + start
        row = load(x, i, b)
        total = Row()
        for k in range(corners):
            v = vertex[i, k]
            if v < most.shape[0]:
                top = load(most, v, b)
                each = load(part, v, b)
                for c in range(lanes):
                    total[c] = total[c] + wp.where(row[c] == top[c], each[c], zero)
        store(out, i, b, total)

    return SimpleNamespace(module=module, maximum=maximum, attaining=attaining, spread=spread)


def _largest(Row: type, corners: int) -> wp.Function:
    length, not_negative = Row._length_, NOT_NEGATIVE

    @wp.func
    def largest(
        x: wp.array2d(dtype=Row),
        v: int,
        begin: wp.array1d(dtype=wp.int32),
        order: wp.array1d(dtype=wp.int32),
        out: wp.array2d(dtype=Row),
    ):
        first = begin[v]
        for b in range(out.shape[1]):
            most = Row()
            if begin[v + 1] > first:
                most = x[(order[first] & not_negative) / corners, b]
            for e in range(first + 1, begin[v + 1]):
                row = x[(order[e] & not_negative) / corners, b]
                for c in range(length):
                    # NaN replaces any number and stays.
                    replaces = row[c] > most[c] or row[c] != row[c]
                    most[c] = wp.where(replaces, row[c], most[c])
            out[v, b] = most

    return largest


def _sum_attaining(Row: type, corners: int, dtype: type) -> wp.Function:
    length, not_negative, zero = Row._length_, NOT_NEGATIVE, dtype(0.0)

    @wp.func
    def sum_attaining(
        term: wp.array2d(dtype=Row),
        x: wp.array2d(dtype=Row),
        most: wp.array2d(dtype=Row),
        v: int,
        begin: wp.array1d(dtype=wp.int32),
        order: wp.array1d(dtype=wp.int32),
        out: wp.array2d(dtype=Row),
    ):
        for b in range(out.shape[1]):
            top = most[v, b]
            total = Row()
            for e in range(begin[v], begin[v + 1]):
                i = (order[e] & not_negative) / corners
                row = x[i, b]
                each = term[i, b]
                for c in range(length):
                    total[c] = total[c] + wp.where(row[c] == top[c], each[c], zero)
            out[v, b] = total

    return sum_attaining


def _share(Row: type, corners: int, dtype: type) -> wp.Function:
    length, not_negative, zero, one = Row._length_, NOT_NEGATIVE, dtype(0.0), dtype(1.0)

    @wp.func
    def share(
        grad: wp.array2d(dtype=Row),
        x: wp.array2d(dtype=Row),
        most: wp.array2d(dtype=Row),
        v: int,
        begin: wp.array1d(dtype=wp.int32),
        order: wp.array1d(dtype=wp.int32),
        out: wp.array2d(dtype=Row),
    ):
        for b in range(out.shape[1]):
            top = most[v, b]
            part = grad[v, b]
            ties = Row()
            for c in range(length):
                ties[c] = wp.where(top[c] == zero, one, zero)
            for e in range(begin[v], begin[v + 1]):
                row = x[(order[e] & not_negative) / corners, b]
                for c in range(length):
                    ties[c] = ties[c] + wp.where(row[c] == top[c], one, zero)
            for c in range(length):
                part[c] = part[c] / ties[c]
            out[v, b] = part

    return share


def _spread(Row: type, corners: int, dtype: type) -> wp.Function:
    length, not_negative, zero = Row._length_, NOT_NEGATIVE, dtype(0.0)

    @wp.func
    def spread(
        part: wp.array2d(dtype=Row),
        x: wp.array2d(dtype=Row),
        most: wp.array2d(dtype=Row),
        i: int,
        vertex: wp.array2d(dtype=wp.int32),
        out: wp.array2d(dtype=Row),
    ):
        for b in range(out.shape[1]):
            row = x[i, b]
            total = Row()
            for k in range(corners):
                v = vertex[i, k]
                if v < most.shape[0]:
                    top = most[v & not_negative, b]
                    each = part[v & not_negative, b]
                    for c in range(length):
                        total[c] = total[c] + wp.where(row[c] == top[c], each[c], zero)
            out[i, b] = total

    return spread
