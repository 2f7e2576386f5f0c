"""Registers, local memory and occupancy of the kernels on CUDA devices; no device is needed."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch

from permutogeo.benchmarks.timing import table
from permutogeo.kernels import (
    blur,
    build,
    convolve,
    dot,
    embed,
    midpoints,
    neighbors,
    plan,
    segment_max,
    slice,
    splat,
)
from permutogeo.kernels import table as hashing
from permutogeo.runtime import bridge, resources


def modules(dims: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the kernels of a float32 lattice with codes of one word, by dimension."""
    real = bridge.DTYPES[torch.float32]
    for dim in dims:
        for made in (
            embed.make(dim, real),
            build.make(dim, real, 1),
            splat.make(dim + 1, real),
            slice.make(dim + 1, real),
            dot.make(dim + 1, real),
        ):
            yield f"d = {dim}", made
    for made in (
        hashing.make(1),
        neighbors.make(1),
        midpoints.make(1),
        plan.make(),
        blur.make(real, 1),
        convolve.make(real),
        segment_max.make(2, real),
    ):
        yield "any d", made


def occupancy(quick: bool = False) -> None:
    """Print the resources of each kernel for sm_80, sm_90 and sm_120."""
    if resources.find_cuobjdump() is None:
        raise ModuleNotFoundError("cuobjdump", name="nvidia-cuda-cuobjdump")
    architectures = (80,) if quick else tuple(resources.MULTIPROCESSORS)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for dim, made in islice(modules((3,)), 1) if quick else modules((3, 5, 8)):
            cubins = resources.compile_cubins(made.module, architectures, folder)
            usages = [resources.read_usage(cubin) for cubin in cubins]
            accesses = resources.read_accesses(cubins[0])
            for name in sorted(usages[0]):
                each = [usage[name] for usage in usages]
                rows.append(
                    [
                        f"{name}, {dim}",
                        " ".join(str(use.registers) for use in each),
                        " ".join(str(use.local) for use in each),
                        " ".join(str(use.shared) for use in each),
                        " ".join(
                            f"{use.occupancy(architecture):.0%}"
                            for use, architecture in zip(each, architectures, strict=True)
                        ),
                        "nvdisasm missing" if accesses is None else _describe(accesses[name]),
                    ]
                )
    names = ", ".join(f"sm_{architecture}" for architecture in architectures)
    columns = ["kernel", "registers", "local bytes", "shared bytes", "occupancy", "loads, stores"]
    table(f"Resources of the kernels, float32, {names}, blocks of 256", columns, rows)


def _describe(accesses: Counter[tuple[str, int]]) -> str:
    """Return the bits of the loads and stores of global memory, and their numbers."""
    kinds = (
        " + ".join(f"{n} x {bits}" for (each, bits), n in sorted(accesses.items()) if each == kind)
        for kind in ("load", "store")
    )
    return ", ".join(kinds)
