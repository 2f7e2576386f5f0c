"""Speed, measured against peers in the same run: ``permutogeo bench``.

Imported as ``permutogeo.benchmarks``. Each workload prints medians in milliseconds and ratios:
machines drift, so a peer, a one-thread ``torch.mm`` of 1024 cubed and ourselves are timed in turn,
repetition by repetition.
"""

from __future__ import annotations

import importlib

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
    "operators": ("operators", "operators"),
    "denoising": ("denoising", "denoising"),
    "pictures": ("pictures", "pictures"),
}


def run(names: list[str], quick: bool = False) -> None:
    """Run benchmarks by name, printing a table for each."""
    for name in names:
        module, function = BENCHMARKS[name]
        getattr(importlib.import_module(f"permutogeo.benchmarks.{module}"), function)(quick)
