"""Benchmarks behind ``permutogeo bench``: wall time, scaling and memory, beside other libraries.

Imported as ``permutogeo.benchmarks``. Each workload prints medians in milliseconds. Peers, a
one-thread ``torch.mm`` of 1024 x 1024 matrices and permutogeo are timed in turn in every
repetition, so that the ratios do not depend on the load of the machine.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path

__all__ = ["BENCHMARKS", "record_tables", "run"]

# Name on the command line -> module and function.
BENCHMARKS = {
    "bilateral": ("workloads", "bilateral"),
    "crf": ("crf", "crf"),
    "building": ("workloads", "building"),
    "convolution": ("workloads", "convolution"),
    "paper": ("workloads", "paper_table"),
    "threads": ("limits", "speedup"),
    "scaling": ("limits", "scaling"),
    "memory": ("limits", "memory"),
    "startup": ("limits", "startup"),
    "distributed": ("distributed", "distributed"),
    "operators": ("operators", "operators"),
    "denoising": ("denoising", "denoising"),
    "clouds": ("clouds", "clouds"),
    "pictures": ("pictures", "pictures"),
    "spconv": ("spconv", "spconv"),
    "tiles": ("tiles", "tiles"),
    "seams": ("tiles", "seams"),
    "steps": ("steps", "steps"),
    "gpu": ("gpu", "gpu"),
    "occupancy": ("occupancy", "occupancy"),
    "roofline": ("roofline", "roofline"),
    "solver": ("solver", "solver"),
    "encoding": ("encoding", "encoding"),
    "attention": ("attention", "attention"),
}


def run(names: list[str], quick: bool = False, record: Path | None = None) -> None:
    """Run benchmarks by name, print their tables, and write them to the folder ``record``."""
    for name in names:
        module, function = BENCHMARKS[name]
        call = getattr(importlib.import_module(f"permutogeo.benchmarks.{module}"), function)
        if record is None:
            call(quick)
        else:
            record_tables(name, call, quick, record)


def record_tables(
    name: str,
    call: Callable[[bool], object],
    quick: bool,
    folder: Path,
    command: str | None = None,
) -> None:
    """Run a benchmark and write its tables to ``bench_NAME.json`` and so on."""
    from permutogeo.benchmarks.record import write_table
    from permutogeo.benchmarks.timing import printed

    printed.clear()
    call(quick)
    # Settings of the sizes are part of the command that repeats the table.
    sizes = [f"{key}={os.environ[key]}" for key in ("PERMUTOGEO_POINTS",) if key in os.environ]
    command = command or f"permutogeo bench {name}"
    command = " ".join([*sizes, command, *(["--quick"] if quick else [])])
    for index, (title, columns, rows) in enumerate(printed):
        suffix = f"_{index + 1}" if index else ""
        write_table(folder / f"bench_{name}{suffix}.json", title, columns, rows, command)
