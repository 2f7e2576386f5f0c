"""Interleaved timing of contenders, and tables."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from contextlib import contextmanager
from itertools import pairwise
from statistics import median

import torch
from rich.console import Console
from rich.table import Table

from permutogeo.runtime import threads as pool

# Repetitions whose spread is printed.
_PARTS = 5

console = Console(width=120)
# Tables printed since the list was last cleared: (title, columns, rows).
printed: list[tuple[str, list[str], list[list[str]]]] = []


@contextmanager
def threads(count: int):
    """Set the number of torch threads, which the lattice follows."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def once(call: Callable[[], object]) -> float:
    """Return the milliseconds of one call, without freeing its result."""
    start = time.perf_counter()
    result = call()
    elapsed = time.perf_counter() - start
    del result
    return 1e3 * elapsed


def once_on_processor(call: Callable[[], object]) -> float:
    """Return the milliseconds of processor time of one call, on all threads together."""
    start = time.process_time()
    result = call()
    elapsed = time.process_time() - start
    del result
    return 1e3 * elapsed


class Milliseconds(float):
    """The median of repeated times, with the medians of up to five consecutive parts of them."""

    parts: list[float]

    def __new__(cls, times: list[float]) -> Milliseconds:
        self = super().__new__(cls, median(times))
        count = min(_PARTS, len(times))
        edges = [len(times) * i // count for i in range(count + 1)]
        self.parts = [median(times[a:b]) for a, b in pairwise(edges)]
        return self


def in_turn(
    contenders: dict[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[Callable[[], object]], float] = once,
) -> dict[str, Milliseconds]:
    """Return the median milliseconds of each contender, called in turn in every repetition."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for call in contenders.values():
        call()
    gc.collect()
    gc.disable()
    try:
        for _ in range(repeats):
            for name, call in contenders.items():
                times[name].append(clock(call))
    finally:
        gc.enable()
    return {name: Milliseconds(values) for name, values in times.items()}


_square = torch.rand(1024, 1024)


def square_product() -> None:
    """Multiply two 1024 x 1024 matrices on one thread, as a unit of time.

    Runs on a worker, where torch has one thread: changing ``set_num_threads`` back and forth would
    make torch restart its thread pool, at the cost of the next contender.
    """
    pool.run_jobs([lambda: _square @ _square], caller=False)


def table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """Print a table with right-aligned numbers."""
    output = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        output.add_column(column, justify="left" if index == 0 else "right")
    for row in rows:
        output.add_row(*row)
    console.print(output)
    printed.append((title, columns, rows))


def ratio(ours: Milliseconds, peer: Milliseconds | None) -> str:
    """Return the ratio of two times with its range over the repetitions, nothing for no peer."""
    if peer is None:
        return ""
    each = [a / b for a, b in zip(ours.parts, peer.parts, strict=True)]
    spread = f" ({min(each):.2f}–{max(each):.2f})" if len(each) > 1 else ""
    return f"{ours / peer:.2f}{spread}"


def ms(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"
