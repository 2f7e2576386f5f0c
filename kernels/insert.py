"""Fused embedding and insertion of points into one hash table that all threads of the CPU share.

Threads share the table by compare-and-swap. Which number a lattice point gets depends on their
timing; sorting the codes afterwards makes the result independent of it. A table is of one of two
kinds, with linear probing and some slots always free, so that every search ends:

- *packed*, for codes of up to 32 bits, those of most lattices: a slot holds a code and its number,
  so that a look-up reads one cache line;
- *listed*, for longer codes: a slot holds the number, which is the place of the code in a list.

Small boxes need no table: see ``kernels/marks.py``.

On a GPU the kernels compile, but only ``claim`` in ``kernels/table.py`` inserts there.
"""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels import marks, simplex, table
from permutogeo.kernels.build import code_functions
from permutogeo.kernels.module import kernel, named
from permutogeo.kernels.unstrided import reader, writer

# Points that are embedded before their corners are inserted, so that the slots are in the cache.
CHUNK = 16
# Content of a free slot.
FREE = -1
# Entries between a prefetch and its use.
_AHEAD = 32

# Warp's atomics are not atomic on the CPU.
_PACKED = """
#ifndef __CUDA_ARCH__
    const wp::uint64 free = ~(wp::uint64)0;
    const wp::uint64 wanted = code.c[0];
    wp::uint64* const table = (wp::uint64*)slots.data;
    const size_t mask = slots.shape.dims[0] - 1;
    for (size_t s = slot;; s = (s + 1) & mask) {
        wp::uint64 held = __atomic_load_n(table + s, __ATOMIC_RELAXED);
        if (held == free) {
            const wp::uint64 entry = (wanted << 32) | (wp::uint32)number;
            if (!several) {
                table[s] = entry;
                return number;
            }
            if (__atomic_compare_exchange_n(
                    table + s, &held, entry, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
                return number;
        }
        if (held >> 32 == wanted) return (int)held;
    }
#else
    return number;
#endif
"""
# The code is in the list before its number is published.
_LISTED = """
#ifndef __CUDA_ARCH__
    int* const table = slots.data;
    const size_t mask = slots.shape.dims[0] - 1;
    for (size_t s = slot;; s = (s + 1) & mask) {
        int held = __atomic_load_n(table + s, __ATOMIC_ACQUIRE);
        if (held < 0) {
            list.data[number] = code;
            if (!several) {
                table[s] = number;
                return number;
            }
            if (__atomic_compare_exchange_n(
                    table + s, &held, number, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
                return number;
        }
        bool equal = true;
        for (int w = 0; w < WORDS; ++w) equal &= list.data[held].c[w] == code.c[w];
        if (equal) return held;
    }
#else
    return number;
#endif
"""
_FETCH_ADD = """
#ifndef __CUDA_ARCH__
    return __atomic_fetch_add(counter.data, amount, __ATOMIC_RELAXED);
#else
    return 0;
#endif
"""


@cache
def make(dim: int, dtype: type, words: int, packed: bool) -> SimpleNamespace:
    module = named("insert", dim, dtype, words, packed)
    point = simplex.make(dim, dtype)
    Real, Feature, Weight, Vertex = point.Real, point.Feature, point.Weight, point.Vertex
    elevate, split, barycentric = point.elevate, point.split, point.barycentric
    axis_label = point.axis_label
    coding, slotted = code_functions(dim, dtype, words), _table(words, packed)
    Code, encode, first_slot = coding.Code, coding.encode, coding.first_slot
    Slot, enter, fetch_add = slotted.Slot, slotted.enter, slotted.fetch_add
    prefetch, prefetch_code = slotted.prefetch, slotted.prefetch_code
    get_feature, put_weight, put_vertex = reader(Feature), writer(Weight), writer(Vertex)
    get_code, put_code = reader(Code), writer(Code)
    corners = dim + 1
    chunk = CHUNK

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
        end: wp.array1d(dtype=wp.int64),  # [runs]
        shift: int,
        limit: int,
        several: int,  # whether there are several runs
        block: int,
        taken: wp.array1d(dtype=wp.int32),  # [1], in and out: numbers given to runs so far
        slots: wp.array1d(dtype=Slot),  # [capacity], in and out
        list: wp.array1d(dtype=Code),  # [numbers], in and out: listed codes
        own: wp.array2d(dtype=wp.int32),  # [runs, 2], in and out: numbers, from and to
        progress: wp.array1d(dtype=wp.int64),  # [runs], in and out: next point
        wanted: wp.array1d(dtype=Code),  # [runs x CHUNK x corners], workspace, out
        weight: wp.array1d(dtype=Weight),  # [N], out
        vertex: wp.array1d(dtype=Vertex),  # [N], out: numbers of the corners
    ):
        """Embed a run of points and insert their corners into the table. A thread owns a run.

        New codes get numbers of the run, which takes ``block`` more when they are used up. Returns
        at the end of the run, or early once more than ``limit`` numbers are taken, for the caller
        to grow the table.
        """
        t = wp.tid() + start
        place = t * chunk * corners
        n = own[t, 0]
        stop = own[t, 1]
        first = int(progress[t])
        last = int(end[t])
        while first < last and fetch_add(taken, 0) <= limit:
            points = wp.min(chunk, last - first)
            for p in range(points):
                i = first + p
                floor, order = split(elevate(get_feature(feature, i), scale, subdiagonal))
                put_weight(weight, i, barycentric(order))
                corner = encode(floor, low, stride, graph, i)
                for k in range(corners):
                    put_code(wanted, place + p * corners + k, corner)
                    prefetch(slots, first_slot(corner, shift))
                    if k < dim:
                        corner += get_code(step, axis_label(order[k]))
            for c in range(points * corners):
                prefetch_code(slots, list, first_slot(get_code(wanted, place + c), shift))
            for p in range(points):
                row = Vertex()
                for k in range(corners):
                    corner = get_code(wanted, place + p * corners + k)
                    number = enter(slots, list, first_slot(corner, shift), corner, n, several)
                    if number == n:
                        n += 1
                        if n == stop:
                            n = fetch_add(taken, block)
                            stop = n + block
                    row[k] = number
                put_vertex(vertex, first + p, row)
            first += points
        progress[t] = wp.int64(first)
        own[t, 0] = n
        own[t, 1] = stop

    mark = marks.add(module, dim, dtype, words)
    return SimpleNamespace(module=module, Real=Real, insert=insert, mark=mark)


@cache
def make_tools(words: int, packed: bool) -> SimpleNamespace:
    """Return the kernels that move codes to a larger table and number them in sorted order."""
    module = named("insert_tools", words, packed)
    tools = _renumbering(module)
    add = _packed_tools if packed else _listed_tools
    return SimpleNamespace(module=module, **vars(tools), **vars(add(module, words)))


def _table(words: int, packed: bool) -> SimpleNamespace:
    """Return the slot type of a table and the functions that insert into it."""
    Code = table.functions(words).Code
    Slot = wp.int64 if packed else wp.int32

    @wp.func_native(_PACKED if packed else _LISTED.replace("WORDS", str(words)))
    def enter(
        slots: wp.array1d(dtype=Slot),
        list: wp.array1d(dtype=Code),
        slot: int,
        code: Code,
        number: int,
        several: int,
    ) -> int:
        """Number of a code, which is ``number`` if it is entered.

        The search begins at ``slot``. ``several`` says whether other threads insert meanwhile.
        """
        ...

    @wp.func_native(table.PREFETCH)
    def prefetch(items: wp.array1d(dtype=Slot), index: int): ...

    @wp.func_native(table.PREFETCH)
    def prefetch_listed(items: wp.array1d(dtype=Code), index: int): ...

    @wp.func
    def prefetch_code(slots: wp.array1d(dtype=Slot), list: wp.array1d(dtype=Code), slot: int):
        """Fetch the code that a slot refers to."""
        prefetch_listed(list, wp.max(int(slots[slot]), 0))

    @wp.func
    def no_prefetch(slots: wp.array1d(dtype=Slot), list: wp.array1d(dtype=Code), slot: int):
        pass

    @wp.func_native(_FETCH_ADD)
    def fetch_add(counter: wp.array1d(dtype=wp.int32), amount: int) -> int:
        """Add to a counter that other threads change too, and return what it was before."""
        ...

    return SimpleNamespace(
        Code=Code,
        Slot=Slot,
        enter=enter,
        prefetch=prefetch,
        prefetch_code=no_prefetch if packed else prefetch_code,
        fetch_add=fetch_add,
    )


def _renumbering(module: wp.Module) -> SimpleNamespace:
    distance = _AHEAD

    @wp.func_native(table.PREFETCH)
    def prefetch(items: wp.array1d(dtype=wp.int32), index: int): ...

    integer, put_integer = reader(wp.int32), writer(wp.int32)

    @kernel(module)
    def renumber(
        start: int,
        scattered: int,  # whether the positions exceed the cache
        position: wp.array1d(dtype=wp.int32),  # [numbers]
        vertex: wp.array1d(dtype=wp.int32),  # [corners], in and out
    ):
        """Replace numbers by positions in the sorted list. A thread owns a corner."""
        c = wp.tid() + start
        if scattered > 0:
            prefetch(position, integer(vertex, wp.min(c + distance, vertex.shape[0] - 1)))
        put_integer(vertex, c, integer(position, integer(vertex, c)))

    return SimpleNamespace(renumber=renumber)


def _packed_tools(module: wp.Module, words: int) -> SimpleNamespace:
    slotted, first_slot = _table(words, True), table.functions(words).first_slot
    Code, Slot, enter, prefetch = slotted.Code, slotted.Slot, slotted.enter, slotted.prefetch
    high, low_bits, distance = wp.uint64(32), wp.int64(2**31 - 1), _AHEAD
    get, put, put_code, put_integer = reader(Slot), writer(Slot), writer(Code), writer(wp.int32)

    @wp.func
    def code_of(entry: wp.int64):
        return Code(wp.int64(wp.uint64(entry) >> high))

    @wp.func_native(table.PREFETCH)
    def prefetch_position(items: wp.array1d(dtype=wp.int32), index: int): ...

    @kernel(module)
    def move(
        start: int,
        part: int,
        old: wp.array1d(dtype=wp.int64),  # [old capacity]
        list: wp.array1d(dtype=Code),  # empty
        shift: int,
        several: int,  # whether there are several parts
        slots: wp.array1d(dtype=wp.int64),  # [capacity], in and out
    ):
        """Insert the codes of a table into a larger one. A thread owns a part of the slots."""
        first = (wp.tid() + start) * part
        last = first + wp.min(part, old.shape[0] - first)
        for s in range(first, last):
            held = old[wp.min(s + distance, last - 1)]
            if held != wp.int64(-1):
                prefetch(slots, first_slot(code_of(held), shift))
            held = old[s]
            if held != wp.int64(-1):
                slot = first_slot(code_of(held), shift)
                enter(slots, list, slot, code_of(held), int(held & low_bits), several)

    @kernel(module)
    def compact(
        start: int,
        part: int,
        slots: wp.array1d(dtype=wp.int64),  # [capacity], in and out
        count: wp.array1d(dtype=wp.int32),  # [parts], out
    ):
        """Move the taken slots of a part of a table to its front. A thread owns a part."""
        t = wp.tid() + start
        first = t * part
        n = first
        for s in range(first, first + wp.min(part, slots.shape[0] - first)):
            held = get(slots, s)
            put(slots, n, held)  # without a branch, which no processor predicts
            n += int(held != wp.int64(-1))
        count[t] = n - first

    @kernel(module)
    def unpack(
        start: int,
        entry: wp.array1d(dtype=wp.int64),  # [M], codes and numbers, ascending
        code: wp.array1d(dtype=Code),  # [M], out
        position: wp.array1d(dtype=wp.int32),  # [numbers], out: position of each number
    ):
        """Codes and positions from the sorted slots of a table. A thread owns a position."""
        r = wp.tid() + start
        ahead = get(entry, wp.min(r + distance, entry.shape[0] - 1))
        prefetch_position(position, int(ahead & low_bits))
        held = get(entry, r)
        put_code(code, r, code_of(held))
        put_integer(position, int(held & low_bits), r)

    return SimpleNamespace(move=move, compact=compact, unpack=unpack)


def _listed_tools(module: wp.Module, words: int) -> SimpleNamespace:
    slotted, hashing = _table(words, False), table.functions(words)
    Code, enter, prefetch = slotted.Code, slotted.enter, slotted.prefetch
    first_slot, next_slot, distance = hashing.first_slot, hashing.next_slot, _AHEAD

    @kernel(module)
    def move(
        start: int,
        part: int,
        old: wp.array1d(dtype=Code),  # [numbers], negative where a number is not used
        list: wp.array1d(dtype=Code),  # [numbers], in and out
        shift: int,
        several: int,  # whether there are several parts
        slots: wp.array1d(dtype=wp.int32),  # [capacity], in and out
    ):
        """Insert a list of codes into a larger table. A thread owns a part of the list."""
        first = (wp.tid() + start) * part
        last = first + wp.min(part, old.shape[0] - first)
        for i in range(first, last):
            prefetch(slots, first_slot(old[wp.min(i + distance, last - 1)], shift))
            if old[i][0] >= wp.int64(0):
                enter(slots, list, first_slot(old[i], shift), old[i], i, several)

    @kernel(module)
    def rank(
        start: int,
        code: wp.array1d(dtype=Code),  # [M], ascending
        shift: int,
        slots: wp.array1d(dtype=wp.int32),  # [capacity]
        list: wp.array1d(dtype=Code),  # [numbers]
        position: wp.array1d(dtype=wp.int32),  # [numbers], out: position of each number
    ):
        """Positions of the codes of a table in the sorted list. A thread owns a position."""
        r = wp.tid() + start
        mask = slots.shape[0] - 1
        prefetch(slots, first_slot(code[wp.min(r + distance, code.shape[0] - 1)], shift))
        wanted = code[r]
        slot = first_slot(wanted, shift)
        number = slots[slot]
        while not (list[number] == wanted):
            slot = next_slot(slot, mask)
            number = slots[slot]
        position[number] = r

    return SimpleNamespace(move=move, rank=rank)
