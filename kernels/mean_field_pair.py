"""Mean field of two labels by the difference of their logits, half the numbers of two marginals."""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels.exponential import make_exponential
from permutogeo.kernels.mean_field import FLAT
from permutogeo.kernels.module import kernel, named
from permutogeo.kernels.unstrided import reader, writer


@cache
def make(corners: int) -> SimpleNamespace:
    """Return the kernels for ``corners`` per point on all lattices, in float32."""
    module = named("mean_field_pair", corners)
    Flat = wp.types.vector(length=FLAT, dtype=wp.float32)
    Weight = wp.types.vector(length=corners, dtype=wp.float32)
    Vertex = wp.types.vector(length=corners, dtype=wp.int32)
    number, put_number, integer = reader(wp.float32), writer(wp.float32), reader(wp.int32)
    get_flat, put_flat = reader(Flat), writer(Flat)
    get_weight, get_vertex = reader(Weight), reader(Vertex)
    exponential = make_exponential(FLAT)
    lanes = FLAT
    Pair = wp.types.vector(length=2, dtype=wp.float32)
    get_pair, put_pair = reader(Pair), writer(Pair)

    @wp.func
    def minus_size(x: Flat):
        for j in range(lanes):
            x[j] = -wp.abs(x[j])
        return x

    @wp.func
    def slice_differences(
        first: int,
        count: int,
        messages: int,
        base: int,
        vertex: wp.array1d(dtype=Vertex),
        weight: wp.array1d(dtype=Weight),
        unary: wp.array1d(dtype=wp.float32),
        values: wp.array1d(dtype=wp.float32),
        place: int,
        difference: wp.array1d(dtype=wp.float32),
    ):
        for p in range(count):
            total = number(unary, first + p)
            if messages > 0:
                v = get_vertex(vertex, first + p)
                w = get_weight(weight, first + p)
                for k in range(corners):
                    total += w[k] * number(values, base + v[k])
            put_number(difference, place + p, total)

    @kernel(module)
    def subtract(
        start: int,
        unary: wp.array1d(dtype=Pair),  # [N]
        out: wp.array1d(dtype=wp.float32),  # [N], out
    ):
        """Differences of logits. A thread owns a point."""
        i = wp.tid() + start
        logits = get_pair(unary, i)
        put_number(out, i, logits[0] - logits[1])

    @kernel(module)
    def step(
        start: int,
        runs: wp.array1d(dtype=wp.int32),  # [R + 1]: edges of the runs of points
        slots: wp.array1d(dtype=wp.int32),  # [R]: first slot of each run
        points: int,  # points of the workspace of a run
        messages: int,  # whether to add the values
        slot: wp.array1d(dtype=Vertex),  # [N], after the first slot of the run
        target: wp.array1d(dtype=Weight),  # [N]
        source: wp.array1d(dtype=Weight),  # [N]
        unary: wp.array1d(dtype=wp.float32),  # [N]
        values: wp.array1d(dtype=wp.float32),  # [S], of the vertices of slots
        difference: wp.array1d(dtype=wp.float32),  # [R x points], workspace
        flat: wp.array1d(dtype=Flat),  # the same memory
        sums: wp.array1d(dtype=wp.float32),  # [S], out, zeroed by the caller
    ):
        """Splat the difference of the marginals, the hyperbolic tangent of half that of the
        logits. A thread owns a run of points, and no slot is of two runs."""
        t = wp.tid() + start
        place = t * points
        end = integer(runs, t + 1)
        base = integer(slots, t)
        first = integer(runs, t)
        while first < end:
            count = wp.min(points, end - first)
            slice_differences(
                first, count, messages, base, slot, target, unary, values, place, difference
            )
            for f in range(place // lanes, (place + points) // lanes):
                x = get_flat(flat, f)
                power = exponential(minus_size(x))
                for j in range(lanes):
                    ratio = (1.0 - power[j]) / (1.0 + power[j])
                    x[j] = wp.where(x[j] < 0.0, -ratio, ratio)
                put_flat(flat, f, x)
            for p in range(count):
                s = get_vertex(slot, first + p)
                w = get_weight(source, first + p) * number(difference, place + p)
                for k in range(corners):
                    put_number(sums, base + s[k], number(sums, base + s[k]) + w[k])
            first += points

    @kernel(module)
    def marginals(
        start: int,
        runs: wp.array1d(dtype=wp.int32),  # [R + 1]: edges of the runs of points
        slots: wp.array1d(dtype=wp.int32),  # [R]: first slot of each run
        points: int,  # points of the workspace of a run
        messages: int,  # whether to add the values
        logarithm: int,  # whether to write logarithms
        slot: wp.array1d(dtype=Vertex),  # [N], after the first slot of the run
        target: wp.array1d(dtype=Weight),  # [N]
        unary: wp.array1d(dtype=wp.float32),  # [N]
        values: wp.array1d(dtype=wp.float32),  # [S], of the vertices of slots
        difference: wp.array1d(dtype=wp.float32),  # [R x points], workspace
        flat: wp.array1d(dtype=Flat),  # the same memory
        power: wp.array1d(dtype=wp.float32),  # [R x points], workspace
        flat_power: wp.array1d(dtype=Flat),  # the same memory
        out: wp.array1d(dtype=Pair),  # [N], out
    ):
        """Marginals of both labels. A thread owns a run of points."""
        t = wp.tid() + start
        place = t * points
        end = integer(runs, t + 1)
        first = integer(runs, t)
        while first < end:
            count = wp.min(points, end - first)
            slice_differences(
                first,
                count,
                messages,
                integer(slots, t),
                slot,
                target,
                unary,
                values,
                place,
                difference,
            )
            for f in range(place // lanes, (place + points) // lanes):
                put_flat(flat_power, f, exponential(minus_size(get_flat(flat, f))))
            for p in range(count):
                x = number(difference, place + p)
                less = number(power, place + p)
                top = 1.0 / (1.0 + less)
                bottom = less * top
                if logarithm > 0:
                    top = -wp.log(1.0 + less)
                    bottom = top - wp.abs(x)
                if x < 0.0:
                    put_pair(out, first + p, Pair(bottom, top))
                else:
                    put_pair(out, first + p, Pair(top, bottom))
            first += points

    return SimpleNamespace(module=module, subtract=subtract, step=step, marginals=marginals)
