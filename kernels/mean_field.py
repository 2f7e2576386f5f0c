"""One step of mean field: slice, softmax and splat of a point in one kernel.

The corners of a point on all lattices form one row, so that the number of lattices does not matter.
Labels are padded to one vector of up to ``WIDEST`` lanes or to several of ``FLAT``, which compile
to SIMD.
"""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels.exponential import larger, make_exponential
from permutogeo.kernels.module import NOT_NEGATIVE, kernel, named
from permutogeo.kernels.rows import block_counter
from permutogeo.kernels.unstrided import reader, writer

# Lanes of the vectors that exponentials are computed on, whatever the number of labels.
FLAT = 16
# Lanes of the widest vector that holds all labels.
WIDEST = 32
# Lanes of the vectors that maxima and sums are computed on.
PART = 8
# Points between the prefetch of a row and its use.
_AHEAD = 16
# Otherwise loops over points would be vectorized across points, by gathers and scatters of lanes.
_ONE_BY_ONE = """
#ifndef __CUDA_ARCH__
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
#endif
"""
# The hardware does not foresee which rows the corners of the next points are.
_PREFETCH = """
#ifndef __CUDA_ARCH__
    const char* row = (const char*)rows.data + (size_t)index * rows.strides[0];
    __builtin_prefetch(row);
    __builtin_prefetch(row + 64);
#endif
"""
# Rows of any number of labels are not aligned to blocks.
_BLOCK_AT = """
    assert(point >= 0 && point < rows.shape[0]);
    auto row = (const char*)rows.data + (size_t)point * rows.strides[0];
    return *(decltype(rows.data))(row + block * sizeof(*rows.data));
"""


@cache
def make(corners: int, lanes: int, many: bool) -> SimpleNamespace:
    """Return the kernels for ``corners`` per point on all lattices and blocks of ``lanes`` labels,
    one or many, in float32."""
    module = named("mean_field", corners, lanes, many)
    part = min(lanes, PART)
    parts = lanes // part
    Row = wp.types.vector(length=lanes, dtype=wp.float32)
    Part = wp.types.vector(length=part, dtype=wp.float32)
    Flat = wp.types.vector(length=FLAT, dtype=wp.float32)
    Weight = wp.types.vector(length=corners, dtype=wp.float32)
    Vertex = wp.types.vector(length=corners, dtype=wp.int32)
    get, put, get_part, put_part = reader(Row), writer(Row), reader(Part), writer(Part)
    get_flat, put_flat = reader(Flat), writer(Flat)
    get_weight, get_vertex, integer = reader(Weight), reader(Vertex), reader(wp.int32)
    exponential, blocks_of = make_exponential(FLAT), block_counter(many)
    distance = _AHEAD
    flat_lanes, not_negative = FLAT, NOT_NEGATIVE
    half, quarter, eighth = part // 2, part // 4, part // 8

    @wp.func_native(_PREFETCH)
    def prefetch(rows: wp.array1d(dtype=Row), index: int): ...

    @wp.func_native(_ONE_BY_ONE)
    def one_by_one(): ...

    @wp.func_native(_BLOCK_AT)
    def block_at(rows: wp.array1d(dtype=Row), point: int, block: int) -> Row: ...

    # Sequential maxima and sums over lanes would be long chains of dependent operations.
    @wp.func
    def largest(row: Part):
        for j in range(half):
            row[j] = larger(row[j], row[j + half])
        for j in range(quarter):
            row[j] = larger(row[j], row[j + quarter])
        for j in range(eighth):
            row[j] = larger(row[j], row[j + eighth])
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

    @wp.func
    def larger_part(a: Part, b: Part):
        for j in range(part):
            a[j] = larger(a[j], b[j])
        return a

    @wp.func
    def subtract_largest(blocks: int, row: int, logits: wp.array1d(dtype=Part)):
        first = row * blocks * parts
        last = first + blocks * parts
        top = get_part(logits, first)
        i = first + 1
        while i < last:
            top = larger_part(top, get_part(logits, i))
            i += 1
        highest = Part(largest(top))
        i = first
        while i < last:
            put_part(logits, i, get_part(logits, i) - highest)
            i += 1

    @wp.func
    def sum_labels(blocks: int, row: int, marginals: wp.array1d(dtype=Part)):
        first = row * blocks * parts
        total = get_part(marginals, first)
        i = first + 1
        while i < first + blocks * parts:
            total += get_part(marginals, i)
            i += 1
        return total_of(total)

    @wp.func
    def padded(
        blocks: int,
        padding: Row,
        unary: wp.array1d(dtype=Row),
        tail: wp.array1d(dtype=Row),
        point: int,
        b: int,
    ):
        """Block of the unary logits of a point, -inf in the padding."""
        if point + 1 < unary.shape[0]:
            row = block_at(unary, point, b)
            if b + 1 == blocks:
                row += padding
            return row
        return get(tail, b)

    @wp.func
    def slice_logits(
        first: int,
        count: int,
        blocks: int,
        padding: Row,
        messages: int,
        fetch: int,
        base: Vertex,
        slot: wp.array1d(dtype=Vertex),
        weight: wp.array1d(dtype=Weight),
        unary: wp.array1d(dtype=Row),
        tail: wp.array1d(dtype=Row),
        values: wp.array1d(dtype=Row),
        place: int,
        logits: wp.array1d(dtype=Row),
        part_logits: wp.array1d(dtype=Part),
    ):
        """Write the logits of some points, minus their maximum at each point."""
        last = slot.shape[0] - 1
        p = int(0)
        while p < count:
            here = first + p
            prefetch(unary, wp.min(here + 2 * distance, last))
            if messages > 0:
                if fetch > 0:
                    ahead = get_vertex(slot, wp.min(here + distance, last)) + base
                    for k in range(corners):
                        prefetch(values, ahead[k] * blocks)
                v = get_vertex(slot, here) + base
                w = get_weight(weight, here)
                b = int(0)
                while b < blocks:
                    total = padded(blocks, padding, unary, tail, here, b)
                    for k in range(corners):
                        total += w[k] * get(values, v[k] * blocks + b)
                    put(logits, (place + p) * blocks + b, total)
                    b += 1
            else:
                b = int(0)
                while b < blocks:
                    row = padded(blocks, padding, unary, tail, here, b)
                    put(logits, (place + p) * blocks + b, row)
                    b += 1
            p += 1
        # In a loop of its own, after the stores that it reads have left the processor.
        p = int(0)
        while p < count:
            subtract_largest(blocks, place + p, part_logits)
            one_by_one()
            p += 1

    # A few points at a time: long chains of operations on single points would leave the processor
    # waiting, and the rows stay in its first cache.
    @kernel(module)
    def step(
        start: int,
        runs: wp.array1d(dtype=wp.int32),  # [R + 1]: edges of the runs of points
        slots: wp.array1d(dtype=wp.int32),  # [R]: first slot of each run
        points: int,  # points of the workspace of a run
        row_blocks: int,  # blocks of a row
        padding: Row,  # -inf where the last block of a row holds no labels, else 0
        messages: int,  # whether to add the values
        fetch: int,  # whether rows had better be prefetched
        slot: wp.array1d(dtype=Vertex),  # [N], rows after the first slot of the run
        target: wp.array1d(dtype=Weight),  # [N]
        source: wp.array1d(dtype=Weight),  # [N]
        unary: wp.array1d(dtype=Row),  # [N], of labels alone: rows end in the next one
        tail: wp.array1d(dtype=Row),  # [blocks]: the last row, which no other follows
        values: wp.array1d(dtype=Row),  # [slots x blocks]
        logits: wp.array1d(dtype=Row),  # [R x points x blocks], workspace
        part_logits: wp.array1d(dtype=Part),  # the same memory, [R x points x parts]
        flat: wp.array1d(dtype=Flat),  # the same memory, [R x F]
        sums: wp.array1d(dtype=Row),  # [slots x blocks], out, zeroed by the caller
    ):
        """Splat the marginals of ``unary + sliced values``. A thread owns a run of points, and no
        slot is of two runs."""
        t = wp.tid() + start
        blocks = blocks_of(row_blocks)
        place = t * points
        width = points * blocks * lanes // flat_lanes
        end = integer(runs, t + 1)
        base = Vertex(integer(slots, t))
        last = slot.shape[0] - 1
        first = integer(runs, t)
        while first < end:
            count = wp.min(points, end - first)
            slice_logits(
                first,
                count,
                blocks,
                padding,
                messages,
                fetch,
                base,
                slot,
                target,
                unary,
                tail,
                values,
                place,
                logits,
                part_logits,
            )
            for f in range(t * width, (t + 1) * width):
                put_flat(flat, f, exponential(get_flat(flat, f)))
            p = int(0)
            while p < count:
                here = first + p
                if fetch > 0:
                    ahead = get_vertex(slot, wp.min(here + distance, last)) + base
                    for k in range(corners):
                        prefetch(sums, ahead[k] * blocks)
                v = get_vertex(slot, here) + base
                w = get_weight(source, here) * (1.0 / sum_labels(blocks, place + p, part_logits))
                b = int(0)
                while b < blocks:
                    marginal = get(logits, (place + p) * blocks + b)
                    for k in range(corners):
                        row = v[k] * blocks + b
                        put(sums, row, get(sums, row) + w[k] * marginal)
                    b += 1
                p += 1
            first += points

    @kernel(module)
    def marginals(
        start: int,
        runs: wp.array1d(dtype=wp.int32),  # [R + 1]: edges of the runs of points
        slots: wp.array1d(dtype=wp.int32),  # [R]: first slot of each run
        points: int,  # points of the workspace of a run
        row_blocks: int,  # blocks of a row
        padding: Row,  # -inf where the last block of a row holds no labels, else 0
        messages: int,  # whether to add the values
        fetch: int,  # whether rows had better be prefetched
        logarithm: int,  # whether to write logarithms
        slot: wp.array1d(dtype=Vertex),  # [N], rows after the first slot of the run
        target: wp.array1d(dtype=Weight),  # [N]
        unary: wp.array1d(dtype=Row),  # [N], of labels alone: rows end in the next one
        tail: wp.array1d(dtype=Row),  # [blocks]: the last row, which no other follows
        values: wp.array1d(dtype=Row),  # [slots x blocks]
        logits: wp.array1d(dtype=Row),  # [R x points x blocks], workspace
        part_logits: wp.array1d(dtype=Part),  # the same memory, [R x points x blocks x parts]
        flat: wp.array1d(dtype=Flat),  # the same memory, [R x F]
        part_power: wp.array1d(dtype=Part),  # as ``part_logits``, another workspace
        flat_power: wp.array1d(dtype=Flat),  # the same memory, [R x F]
        whole: wp.array2d(dtype=Part),  # the memory of ``out``, [N, whole parts]
        out: wp.array2d(dtype=wp.float32),  # [N, L], out
    ):
        """Marginals of ``unary + sliced values``. A thread owns a run of points."""
        t = wp.tid() + start
        blocks = blocks_of(row_blocks)
        place = t * points
        width = points * blocks * lanes // flat_lanes
        end = integer(runs, t + 1)
        base = Vertex(integer(slots, t))
        first = integer(runs, t)
        while first < end:
            count = wp.min(points, end - first)
            slice_logits(
                first,
                count,
                blocks,
                padding,
                messages,
                fetch,
                base,
                slot,
                target,
                unary,
                tail,
                values,
                place,
                logits,
                part_logits,
            )
            for f in range(t * width, (t + 1) * width):
                put_flat(flat_power, f, exponential(get_flat(flat, f)))
            for p in range(count):
                total = sum_labels(blocks, place + p, part_power)
                if logarithm > 0:
                    total = wp.log(total)
                else:
                    total = 1.0 / total
                to = (first + p) & not_negative
                row = (place + p) * blocks * parts
                for b in range(blocks * parts):
                    block = get_part(part_power, row + b) * total
                    if logarithm > 0:
                        block = get_part(part_logits, row + b) - Part(total)
                    if b < whole.shape[1]:
                        whole[to, b] = block
                    else:
                        for j in range(part):
                            if b * part + j < out.shape[1]:
                                out[to, b * part + j] = block[j]
            first += points

    return SimpleNamespace(module=module, Row=Row, step=step, marginals=marginals)
