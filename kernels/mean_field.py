"""One step of mean field: slice, softmax and splat of a point in one kernel.

The corners of a point on all lattices form one row, so that the number of lattices does not matter.
Labels are padded to blocks of a few lanes, vectors that compile to SIMD.
"""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels.module import NOT_NEGATIVE, kernel, named

# Lanes of the vectors that exponentials are computed on, whatever the number of labels.
FLAT = 16
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


@cache
def make(corners: int, lanes: int) -> SimpleNamespace:
    """Return the kernels for ``corners`` per point on all lattices and blocks of ``lanes`` labels,
    in float32."""
    module = named("mean_field", corners, lanes)
    not_negative = NOT_NEGATIVE
    Row = wp.types.vector(length=lanes, dtype=wp.float32)
    Flat = wp.types.vector(length=FLAT, dtype=wp.float32)
    Weight = wp.types.vector(length=corners, dtype=wp.float32)
    Vertex = wp.types.vector(length=corners, dtype=wp.int32)
    half, quarter, eighth = lanes // 2, lanes // 4, lanes // 8
    ones = Row(*[1.0] * lanes)
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
    def largest(row: Row):
        for j in range(half):
            row[j] = wp.max(row[j], row[j + half])
        for j in range(quarter):
            row[j] = wp.max(row[j], row[j + quarter])
        for j in range(eighth):
            row[j] = wp.max(row[j], row[j + eighth])
        return row[0]

    @wp.func
    def total_of(row: Row):
        for j in range(half):
            row[j] = row[j] + row[j + half]
        for j in range(quarter):
            row[j] = row[j] + row[j + quarter]
        for j in range(eighth):
            row[j] = row[j] + row[j + eighth]
        return row[0]

    @wp.func
    def slice_logits(
        first: int,
        count: int,
        messages: int,
        blocks: int,
        vertex: wp.array1d(dtype=Vertex),
        weight: wp.array1d(dtype=Weight),
        unary: wp.array1d(dtype=Row),
        values: wp.array1d(dtype=Row),
        place: int,
        logits: wp.array1d(dtype=Row),
    ):
        """Write the logits of some points, minus their maximum at each point."""
        for p in range(count):
            here = first + p
            row = here * blocks
            out = place + p * blocks
            top = unary[row]
            if messages > 0:
                v = vertex[here] * blocks
                w = weight[here]
                for b in range(blocks):
                    total = unary[row + b]
                    for k in range(corners):
                        total += w[k] * values[(v[k] + b) & not_negative]
                    logits[out + b] = total
                    if b == 0:
                        top = total
                    else:
                        top = wp.max(top, total)
            else:
                for b in range(blocks):
                    logits[out + b] = unary[row + b]
                    top = wp.max(top, unary[row + b])
            highest = largest(top) * ones
            for b in range(blocks):
                logits[out + b] = logits[out + b] - highest

    @wp.func
    def sum_labels(place: int, blocks: int, marginals: wp.array1d(dtype=Row)):
        total = marginals[place]
        for b in range(1, blocks):
            total += marginals[place + b]
        return total_of(total)

    # A few points at a time: long chains of operations on single points would leave the processor
    # waiting, and the rows stay in its first cache.
    @kernel(module)
    def step(
        start: int,
        runs: wp.array2d(dtype=wp.int32),  # [R, 2]: first and last point
        points: int,  # points of the workspace of a run
        blocks: int,  # blocks of a row
        messages: int,  # whether to add the values
        vertex: wp.array1d(dtype=Vertex),  # [N], rows of the values
        target: wp.array1d(dtype=Weight),  # [N]
        slot: wp.array1d(dtype=Vertex),  # [N], rows of the sums
        source: wp.array1d(dtype=Weight),  # [N]
        unary: wp.array1d(dtype=Row),  # [N x blocks], -inf in the padding
        values: wp.array1d(dtype=Row),  # [rows x blocks]
        logits: wp.array1d(dtype=Row),  # [R x points x blocks], workspace
        flat: wp.array2d(dtype=Flat),  # the same memory, [R, F]
        sums: wp.array1d(dtype=Row),  # [slots x blocks], out, zeroed by the caller
    ):
        """Splat the marginals of ``unary + sliced values``. A thread owns a run of points, and no
        slot is of two runs."""
        t = wp.tid() + start
        place = t * points * blocks
        for first in range(runs[t, 0], runs[t, 1], points):
            count = wp.min(points, runs[t, 1] - first)
            slice_logits(
                first, count, messages, blocks, vertex, target, unary, values, place, logits
            )
            for f in range(flat.shape[1]):
                flat[t, f] = exponential(flat[t, f])
            for p in range(count):
                row = place + p * blocks
                v = slot[first + p] * blocks
                w = source[first + p] * (1.0 / sum_labels(row, blocks, logits))
                for b in range(blocks):
                    marginal = logits[row + b]
                    for k in range(corners):
                        r = (v[k] + b) & not_negative
                        sums[r] = sums[r] + w[k] * marginal

    @kernel(module)
    def marginals(
        start: int,
        runs: wp.array2d(dtype=wp.int32),  # [R, 2]: first and last point
        points: int,  # points of the workspace of a run
        blocks: int,  # blocks of a row
        messages: int,  # whether to add the values
        logarithm: int,  # whether to write logarithms
        vertex: wp.array1d(dtype=Vertex),  # [N], rows of the values
        target: wp.array1d(dtype=Weight),  # [N]
        unary: wp.array1d(dtype=Row),  # [N x blocks], -inf in the padding
        values: wp.array1d(dtype=Row),  # [rows x blocks]
        logits: wp.array1d(dtype=Row),  # [R x points x blocks], workspace
        flat: wp.array2d(dtype=Flat),  # the same memory, [R, F]
        power: wp.array1d(dtype=Row),  # [R x points x blocks], workspace
        flat_power: wp.array2d(dtype=Flat),  # the same memory, [R, F]
        order: wp.array1d(dtype=wp.int32),  # [N], row of each point in ``out``
        whole: wp.array2d(dtype=Row),  # the memory of ``out``, [N, whole blocks]
        out: wp.array2d(dtype=wp.float32),  # [N, L], out
    ):
        """Marginals of ``unary + sliced values``. A thread owns a run of points."""
        t = wp.tid() + start
        place = t * points * blocks
        for first in range(runs[t, 0], runs[t, 1], points):
            count = wp.min(points, runs[t, 1] - first)
            slice_logits(
                first, count, messages, blocks, vertex, target, unary, values, place, logits
            )
            for f in range(flat.shape[1]):
                flat_power[t, f] = exponential(flat[t, f])
            for p in range(count):
                row = place + p * blocks
                total = sum_labels(row, blocks, power)
                if logarithm > 0:
                    total = wp.log(total)
                else:
                    total = 1.0 / total
                for b in range(blocks):
                    block = power[row + b] * total
                    if logarithm > 0:
                        block = logits[row + b] - total * ones
                    if b < whole.shape[1]:
                        whole[order[first + p], b] = block
                    else:
                        for j in range(lanes):
                            if b * lanes + j < out.shape[1]:
                                out[order[first + p], b * lanes + j] = block[j]

    @kernel(module)
    def touch(
        start: int,
        runs: wp.array2d(dtype=wp.int32),  # [R, 2]: first and last point
        vertex: wp.array1d(dtype=Vertex),  # [N]
        used: wp.array2d(dtype=wp.int32),  # [R, rows], out, zeroed by the caller
    ):
        """Mark the vertices of a run with 1. A thread owns a run."""
        t = wp.tid() + start
        for i in range(runs[t, 0], runs[t, 1]):
            v = vertex[i]
            for k in range(corners):
                used[t, v[k] & not_negative] = 1

    @kernel(module)
    def count(
        start: int,
        used: wp.array2d(dtype=wp.int32),  # [R, rows]
        more: wp.array1d(dtype=wp.int32),  # [rows], out
    ):
        """Number of runs at a vertex after the first one. A thread owns a vertex."""
        v = wp.tid() + start
        total = int(-1)
        for t in range(used.shape[0]):
            total += used[t, v]
        more[v] = wp.max(total, 0)

    @kernel(module)
    def number(
        start: int,
        begin: wp.array1d(dtype=wp.int32),  # [rows + 1]
        used: wp.array2d(dtype=wp.int32),  # [R, rows], in and out
    ):
        """Slot of a vertex in each run: its row in the first run, behind all rows in others. A
        thread owns a vertex."""
        v = wp.tid() + start
        row = v
        after = used.shape[1] + begin[v]
        for t in range(used.shape[0]):
            if used[t, v] > 0:
                used[t, v] = row
                row = after
                after += 1

    @kernel(module)
    def place(
        start: int,
        runs: wp.array2d(dtype=wp.int32),  # [R, 2]: first and last point
        vertex: wp.array1d(dtype=Vertex),  # [N]
        used: wp.array2d(dtype=wp.int32),  # [R, rows]
        slot: wp.array1d(dtype=Vertex),  # [N], out
    ):
        """Slots of the corners of a run. A thread owns a run."""
        t = wp.tid() + start
        for i in range(runs[t, 0], runs[t, 1]):
            v = vertex[i]
            for k in range(corners):
                v[k] = used[t, v[k] & not_negative]
            slot[i] = v

    @kernel(module)
    def combine(
        start: int,
        first: int,  # row of vertex 0
        blocks: int,  # blocks of a row
        begin: wp.array1d(dtype=wp.int32),  # [rows + 1]
        in_place: int,  # whether ``out`` is ``sums``
        sums: wp.array1d(dtype=Row),  # [slots x blocks], in and out: further slots are set to 0
        out: wp.array1d(dtype=Row),  # [rows x blocks], out
    ):
        """Sum over the slots of a vertex, in their order. A thread owns a vertex."""
        v = wp.tid() + start + first
        after = begin.shape[0] - 1
        if in_place == 0 or begin[v + 1] > begin[v]:
            for b in range(blocks):
                total = sums[v * blocks + b]
                for r in range(begin[v], begin[v + 1]):
                    total += sums[(after + r) * blocks + b]
                    sums[(after + r) * blocks + b] = Row()
                out[v * blocks + b] = total

    return SimpleNamespace(
        module=module,
        step=step,
        marginals=marginals,
        touch=touch,
        count=count,
        number=number,
        place=place,
        combine=combine,
    )
