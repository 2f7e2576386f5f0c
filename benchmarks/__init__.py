"""Benchmarks behind ``permutogeo bench``: wall time, scaling and memory, beside other libraries.

Imported as ``permutogeo.benchmarks``. Each workload prints medians in milliseconds. Peers, a
one-thread ``torch.mm`` of 1024 x 1024 matrices and permutogeo are timed in turn in every
repetition, so that the ratios do not depend on the load of the machine.
"""

from __future__ import annotations

import importlib

__all__ = ["BENCHMARKS", "run"]

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
}


def run(names: list[str], quick: bool = False) -> None:
    """Run benchmarks by name, and print a table for each."""
    for name in names:
        module, function = BENCHMARKS[name]
        getattr(importlib.import_module(f"permutogeo.benchmarks.{module}"), function)(quick)
