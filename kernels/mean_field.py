"""One step of mean field: slice, softmax and splat of a point in one kernel.

The corners of a point on all lattices form one row, so that the number of lattices does not matter.
Labels are padded to one vector of up to ``WIDEST`` lanes or to several of ``FLAT``, which compile
to SIMD.
"""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels.module import NOT_NEGATIVE, kernel, named

# Lanes of the vectors that exponentials are computed on, whatever the number of labels.
FLAT = 16
# Lanes of the widest vector that holds all labels.
WIDEST = 32
# Lanes of the vectors that maxima and sums are computed on.
PART = 8
# Points between the prefetch of a row and its use.
_AHEAD = 16
# Exponentials of less are as good as 0.
_LOWEST = -32.0
# exp(y) on [-2, 0], coefficients of ascending powers: least squares of the relative error.
_EXPONENTIAL = (
    0.999999989,
    0.999999272,
    0.499991673,
    0.166628565,
    0.0415765754,
    0.00821009772,
    0.00128643045,
    0.000146169,
    8.87370641e-06,
)

# The hardware does not foresee which rows the corners of the next points are.
_PREFETCH = """
#ifndef __CUDA_ARCH__
    const char* row = (const char*)rows.data + (size_t)index * rows.strides[0];
    __builtin_prefetch(row);
    __builtin_prefetch(row + 64);
#endif
"""


@cache
def make(corners: int, lanes: int) -> SimpleNamespace:
    """Return the kernels for ``corners`` per point on all lattices and blocks of ``lanes`` labels,
    in float32."""
    module = named("mean_field", corners, lanes)
    not_negative = NOT_NEGATIVE
    part = min(lanes, PART)
    parts = lanes // part
    Row = wp.types.vector(length=lanes, dtype=wp.float32)
    Part = wp.types.vector(length=part, dtype=wp.float32)
    Flat = wp.types.vector(length=FLAT, dtype=wp.float32)
    Weight = wp.types.vector(length=corners, dtype=wp.float32)
    Vertex = wp.types.vector(length=corners, dtype=wp.int32)
    distance = _AHEAD
    half, quarter, eighth = part // 2, part // 4, part // 8
    ones = Part(*[1.0] * part)
    lowest = Flat(*[_LOWEST] * FLAT)
    c0, c1, c2, c3, c4, c5, c6, c7, c8 = (Flat(*[each] * FLAT) for each in _EXPONENTIAL)

    @wp.func
    def exponential(x: Flat):
        """``exp(x)`` for ``x <= 0`` by products alone, which compile to SIMD: at most 9e-7 off."""
        y = wp.max(x, lowest) * 0.0625
        p = wp.cw_mul(c8, y) + c7
        p = wp.cw_mul(p, y) + c6
        p = wp.cw_mul(p, y) + c5
        p = wp.cw_mul(p, y) + c4
        p = wp.cw_mul(p, y) + c3
        p = wp.cw_mul(p, y) + c2
        p = wp.cw_mul(p, y) + c1
        p = wp.cw_mul(p, y) + c0
        # exp(y)^16
        p = wp.cw_mul(p, p)
        p = wp.cw_mul(p, p)
        p = wp.cw_mul(p, p)
        return wp.cw_mul(p, p)

    # Sequential maxima and sums over lanes would be long chains of dependent operations.
    @wp.func
    def largest(row: Part):
        for j in range(half):
            row[j] = wp.max(row[j], row[j + half])
        for j in range(quarter):
            row[j] = wp.max(row[j], row[j + quarter])
        for j in range(eighth):
            row[j] = wp.max(row[j], row[j + eighth])
        return row[0]

    @wp.func
    def total_of(row: Part):
        for j in range(half):
            row[j] = row[j] + row[j + half]
        for j in range(quarter):
            row[j] = row[j] + row[j + quarter]
        for j in range(eighth):
            row[j] = row[j] + row[j + eighth]
        return row[0]

    if lanes >= FLAT:

        @wp.func_native(_PREFETCH)
        def prefetch(rows: wp.array2d(dtype=Row), index: int): ...

    else:  # rows are in the cache

        @wp.func
        def prefetch(rows: wp.array2d(dtype=Row), index: int):
            return

    @wp.func
    def subtract_largest(row: int, logits: wp.array2d(dtype=Part)):
        top = logits[row, 0]
        for j in range(1, parts):
            top = wp.max(top, logits[row, j])
        for b in range(parts, logits.shape[1], parts):
            for j in range(parts):
                top = wp.max(top, logits[row, (b + j) & not_negative])
        highest = largest(top) * ones
        for b in range(0, logits.shape[1], parts):
            for j in range(parts):
                i = (b + j) & not_negative
                logits[row, i] = logits[row, i] - highest

    @wp.func
    def sum_labels(row: int, marginals: wp.array2d(dtype=Part)):
        total = marginals[row, 0]
        for j in range(1, parts):
            total += marginals[row, j]
        for b in range(parts, marginals.shape[1], parts):
            for j in range(parts):
                total += marginals[row, (b + j) & not_negative]
        return total_of(total)

    @wp.func
    def slice_logits(
        first: int,
        count: int,
        messages: int,
        vertex: wp.array1d(dtype=Vertex),
        weight: wp.array1d(dtype=Weight),
        unary: wp.array2d(dtype=Row),
        values: wp.array2d(dtype=Row),
        place: int,
        logits: wp.array2d(dtype=Row),
        part_logits: wp.array2d(dtype=Part),
    ):
        """Write the logits of some points, minus their maximum at each point."""
        for p in range(count):
            here = (first + p) & not_negative
            out = (place + p) & not_negative
            if messages > 0:
                ahead = vertex[wp.min(here + distance, vertex.shape[0] - 1) & not_negative]
                for k in range(corners):
                    prefetch(values, ahead[k])
                v = vertex[here]
                w = weight[here]
                for b in range(unary.shape[1]):
                    i = b & not_negative
                    total = unary[here, i]
                    for k in range(corners):
                        total += w[k] * values[v[k] & not_negative, i]
                    logits[out, i] = total
            else:
                for b in range(unary.shape[1]):
                    i = b & not_negative
                    logits[out, i] = unary[here, i]
        for p in range(count):
            subtract_largest((place + p) & not_negative, part_logits)

    # A few points at a time: long chains of operations on single points would leave the processor
    # waiting, and the rows stay in its first cache.
    @kernel(module)
    def step(
        start: int,
        runs: wp.array2d(dtype=wp.int32),  # [R, 2]: first and last point
        points: int,  # points of the workspace of a run
        messages: int,  # whether to add the values
        vertex: wp.array1d(dtype=Vertex),  # [N], rows of the values
        target: wp.array1d(dtype=Weight),  # [N]
        slot: wp.array1d(dtype=Vertex),  # [N], rows of the sums
        source: wp.array1d(dtype=Weight),  # [N]
        unary: wp.array2d(dtype=Row),  # [N, blocks], -inf in the padding
        values: wp.array2d(dtype=Row),  # [rows, blocks]
        logits: wp.array2d(dtype=Row),  # [R x points, blocks], workspace
        part_logits: wp.array2d(dtype=Part),  # the same memory, [R x points, parts]
        flat: wp.array2d(dtype=Flat),  # the same memory, [R, F]
        sums: wp.array2d(dtype=Row),  # [slots, blocks], out, zeroed by the caller
    ):
        """Splat the marginals of ``unary + sliced values``. A thread owns a run of points, and no
        slot is of two runs."""
        t = wp.tid() + start
        place = t * points
        for first in range(runs[t, 0], runs[t, 1], points):
            count = wp.min(points, runs[t, 1] - first)
            slice_logits(
                first,
                count,
                messages,
                vertex,
                target,
                unary,
                values,
                place,
                logits,
                part_logits,
            )
            for f in range(flat.shape[1]):
                flat[t, f] = exponential(flat[t, f])
            for p in range(count):
                row = (place + p) & not_negative
                here = (first + p) & not_negative
                ahead = slot[wp.min(here + distance, slot.shape[0] - 1) & not_negative]
                for k in range(corners):
                    prefetch(sums, ahead[k])
                v = slot[here]
                w = source[here] * (1.0 / sum_labels(row, part_logits))
                for b in range(logits.shape[1]):
                    i = b & not_negative
                    marginal = logits[row, i]
                    for k in range(corners):
                        r = v[k] & not_negative
                        sums[r, i] = sums[r, i] + w[k] * marginal

    @kernel(module)
    def marginals(
        start: int,
        runs: wp.array2d(dtype=wp.int32),  # [R, 2]: first and last point
        points: int,  # points of the workspace of a run
        messages: int,  # whether to add the values
        logarithm: int,  # whether to write logarithms
        vertex: wp.array1d(dtype=Vertex),  # [N], rows of the values
        target: wp.array1d(dtype=Weight),  # [N]
        unary: wp.array2d(dtype=Row),  # [N, blocks], -inf in the padding
        values: wp.array2d(dtype=Row),  # [rows, blocks]
        logits: wp.array2d(dtype=Row),  # [R x points, blocks], workspace
        part_logits: wp.array2d(dtype=Part),  # the same memory, [R x points, parts]
        flat: wp.array2d(dtype=Flat),  # the same memory, [R, F]
        part_power: wp.array2d(dtype=Part),  # [R x points, parts], workspace
        flat_power: wp.array2d(dtype=Flat),  # the same memory, [R, F]
        whole: wp.array2d(dtype=Part),  # the memory of ``out``, [N, whole parts]
        out: wp.array2d(dtype=wp.float32),  # [N, L], out
    ):
        """Marginals of ``unary + sliced values``. A thread owns a run of points."""
        t = wp.tid() + start
        place = t * points
        for first in range(runs[t, 0], runs[t, 1], points):
            count = wp.min(points, runs[t, 1] - first)
            slice_logits(
                first,
                count,
                messages,
                vertex,
                target,
                unary,
                values,
                place,
                logits,
                part_logits,
            )
            for f in range(flat.shape[1]):
                flat_power[t, f] = exponential(flat[t, f])
            for p in range(count):
                row = (place + p) & not_negative
                total = sum_labels(row, part_power)
                if logarithm > 0:
                    total = wp.log(total)
                else:
                    total = 1.0 / total
                to = (first + p) & not_negative
                for b in range(part_power.shape[1]):
                    block = part_power[row, b] * total
                    if logarithm > 0:
                        block = part_logits[row, b] - total * ones
                    if b < whole.shape[1]:
                        whole[to, b] = block
                    else:
                        for j in range(part):
                            if b * part + j < out.shape[1]:
                                out[to, b * part + j] = block[j]

    @kernel(module)
    def pad(
        start: int,
        given: wp.array2d(dtype=wp.float32),  # [N, L]
        given_rows: wp.array2d(dtype=Row),  # the same memory, rows read to the end of their padding
        rows: wp.array2d(dtype=Row),  # [N, blocks], out
        out: wp.array2d(dtype=wp.float32),  # the same memory, [N, lanes x blocks]
    ):
        """Pad rows with -inf. A thread owns a point."""
        i = (wp.tid() + start) & not_negative
        if i + 1 < given.shape[0]:
            for b in range(rows.shape[1]):
                rows[i, b] = given_rows[i, b]
        else:  # nothing may be read behind the last row
            for j in range(given.shape[1]):
                out[i, j] = given[i, j]
        for j in range(given.shape[1], out.shape[1]):
            out[i, j] = -wp.inf

    @kernel(module)
    def combine(
        start: int,
        first: int,  # row of vertex 0
        begin: wp.array1d(dtype=wp.int32),  # [rows + 1]
        slots: wp.array1d(dtype=wp.int32),  # [S]: slots of each vertex
        sums: wp.array2d(dtype=Row),  # [slots, blocks], in and out: set to 0
        out: wp.array2d(dtype=Row),  # [rows, blocks], out
    ):
        """Sum over the slots of a vertex, in the order of runs. A thread owns a vertex."""
        v = (wp.tid() + start + first) & not_negative
        for b in range(sums.shape[1]):
            i = b & not_negative
            total = Row()
            for r in range(begin[v], begin[v + 1]):
                slot = slots[r & not_negative] & not_negative
                total += sums[slot, i]
                sums[slot, i] = Row()
            out[v, i] = total

    return SimpleNamespace(
        module=module,
        step=step,
        marginals=marginals,
        pad=pad,
        combine=combine,
    )
