"""Hash table from lattice points to vertices, for look-ups. ``kernels/insert.py`` has that of a
build.

A lattice point is a *code*, an integer of one or more 64-bit words that numbers the points of a box
(see ``ops/boxes.py``). ``slots`` holds indices into a list of codes, ``-1`` where free, with linear
probing. Some slots are always free, so that every search ends.
"""

from functools import cache
from types import SimpleNamespace

import warp as wp

from permutogeo.kernels.module import NOT_NEGATIVE, kernel, named

# Entries between a prefetch and its use.
_AHEAD = 32
PREFETCH = """
#ifndef __CUDA_ARCH__
    __builtin_prefetch(items.data + index);
#endif
"""


@cache
def functions(words: int) -> SimpleNamespace:
    """Return the code type of ``words`` words, its hash functions and its order."""
    Code = wp.types.vector(length=words, dtype=wp.int64)
    golden = wp.uint64(0x9E3779B97F4A7C15)
    fold = wp.uint64(32)
    not_negative = NOT_NEGATIVE

    @wp.func
    def first_slot(code: Code, shift: int):
        """First slot to probe: the top bits of a Fibonacci hash."""
        h = wp.uint64(code[0])
        for w in range(1, words):
            h = (h * golden) ^ wp.uint64(code[w])
            h = h ^ (h >> fold)
        return int((h * golden) >> wp.uint64(shift)) & not_negative

    @wp.func
    def next_slot(slot: int, mask: int):
        return ((slot + 1) & mask) & not_negative

    @wp.func
    def less(a: Code, b: Code):
        """Lexicographic order of the words."""
        result = bool(False)
        decided = bool(False)
        for w in range(words):
            if not decided and a[w] != b[w]:
                result = a[w] < b[w]
                decided = True
        return result

    @wp.func
    def lower_bound(code: wp.array1d(dtype=Code), wanted: Code):
        """Position of the first of the ascending codes that is not less than ``wanted``."""
        low = int(0)
        high = code.shape[0]
        while low < high:
            middle = low + ((high - low) >> 1)  # not (low + high) / 2, which wraps past 2^30
            if less(code[middle], wanted):
                low = middle + 1
            else:
                high = middle
        return low

    return SimpleNamespace(
        Code=Code,
        first_slot=first_slot,
        next_slot=next_slot,
        less=less,
        lower_bound=lower_bound,
    )


@cache
def make(words: int) -> SimpleNamespace:
    module = named("table", words)
    hashing = functions(words)
    Code, first_slot, next_slot = hashing.Code, hashing.first_slot, hashing.next_slot
    distance = _AHEAD

    @wp.func_native(PREFETCH)
    def prefetch(items: wp.array1d(dtype=wp.int32), index: int): ...

    @kernel(module)
    def insert(
        start: int,
        code: wp.array1d(dtype=Code),  # [M], distinct
        shift: int,
        slots: wp.array1d(dtype=wp.int32),  # [capacity], out, filled with -1 by the caller
    ):
        """Insert all codes. One thread does everything."""
        mask = slots.shape[0] - 1
        for i in range(code.shape[0]):
            ahead = wp.min(i + distance, code.shape[0] - 1)
            prefetch(slots, first_slot(code[ahead], shift))
            slot = first_slot(code[i], shift)
            while slots[slot] >= 0:
                slot = next_slot(slot, mask)
            slots[slot] = i

    @kernel(module)
    def find(
        start: int,
        wanted: wp.array1d(dtype=Code),  # [Q]
        code: wp.array1d(dtype=Code),  # [M]
        shift: int,
        slots: wp.array1d(dtype=wp.int32),  # [capacity]
        out: wp.array1d(dtype=wp.int32),  # [Q], out, -1 where absent
    ):
        """Vertex of each code. A thread owns a query."""
        q = wp.tid() + start
        mask = slots.shape[0] - 1
        slot = first_slot(wanted[q], shift)
        i = slots[slot]
        while i >= 0 and not (code[i] == wanted[q]):
            slot = next_slot(slot, mask)
            i = slots[slot]
        out[q] = i

    @kernel(module)
    def claim(
        start: int,
        code: wp.array1d(dtype=Code),  # [n], with duplicates
        shift: int,
        slots: wp.array1d(dtype=wp.int32),  # [capacity >= 2 n], filled with -1 by the caller
        owner: wp.array1d(dtype=wp.int32),  # [n], out: one index for all equal codes
    ):
        """Insert concurrently by compare-and-swap. A thread owns a code.

        Warp's CPU atomics are not atomic: on the CPU it must run on one thread.
        """
        i = wp.tid() + start
        mask = slots.shape[0] - 1
        slot = first_slot(code[i], shift)
        held = wp.atomic_cas(slots, slot, -1, i)
        while held >= 0 and not (code[held] == code[i]):
            slot = next_slot(slot, mask)
            held = wp.atomic_cas(slots, slot, -1, i)
        if held < 0:
            held = i
        owner[i] = held

    return SimpleNamespace(
        module=module,
        Code=Code,
        insert=insert,
        find=find,
        claim=claim,
    )
