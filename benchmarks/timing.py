"""Timing contenders in turn, and printing what came out."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from contextlib import contextmanager
from statistics import median

import torch
from rich.console import Console
from rich.table import Table

from permutogeo import _threads

console = Console(width=120)


@contextmanager
def threads(count: int):
    """Let torch, and so the lattice, work with ``count`` threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def once(call: Callable[[], object]) -> float:
    """Milliseconds of one call. Freeing what it returns is not counted, making it is."""
    start = time.perf_counter()
    result = call()
    elapsed = time.perf_counter() - start
    del result
    return 1e3 * elapsed


def in_turn(contenders: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median milliseconds of each contender, called one after the other in every repetition."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for call in contenders.values():
        call()
    gc.collect()
    gc.disable()
    try:
        for _ in range(repeats):
            for name, call in contenders.items():
                times[name].append(once(call))
    finally:
        gc.enable()
    return {name: median(values) for name, values in times.items()}


_square = torch.rand(1024, 1024)


def square_product() -> None:
    """The yardstick: 1024 cubed, one thread.

    On a worker, where torch has one anyway: changing its setting to and fro would make torch start
    its threads anew each time, at the cost of whoever comes next.
    """
    _threads.run([lambda: _square @ _square], caller=False)


def table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """Print a table, numbers to the right."""
    output = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        output.add_column(column, justify="left" if index == 0 else "right")
    for row in rows:
        output.add_row(*row)
    console.print(output)


def ms(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"
