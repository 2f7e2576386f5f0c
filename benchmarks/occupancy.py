"""Registers, local memory and occupancy of the kernels on CUDA devices; no device is needed."""

from __future__ import annotations

import re
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
    convolve_channelwise,
    convolve_edges,
    dot,
    embed,
    midpoints,
    neighbors,
    segment_max,
    slice,
    splat,
)
from permutogeo.kernels import table as hashing
from permutogeo.runtime import bridge, resources

# Channels that a thread reads at once, and what rows they suit.
LANES = {4: "C = 4 n", 1: "any C"}


def modules(dims: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the kernels that a GPU runs for a float32 lattice with codes of one word, by dimension;
    rows are whole blocks of four channels, or not."""
    real = bridge.DTYPES[torch.float32]
    for dim in dims:
        yield f"d = {dim}", embed.make(dim, real)
        yield f"d = {dim}", build.make(dim, real, 1)
        for lanes, rows in LANES.items():
            for made in (splat, slice, dot):
                yield f"d = {dim}, {rows}", made.make_gpu(dim + 1, real, lanes)
    for made in (hashing.make(1), neighbors.make(1), midpoints.make(1)):
        yield "any d", made
    for lanes, rows in LANES.items():
        for made in (
            blur.make_gpu(real, 1, lanes),
            convolve.make_gpu(real, lanes),
            convolve_channelwise.make_shared_gpu(real, lanes),
            convolve_channelwise.make_depthwise_gpu(real, lanes),
            convolve_edges.make_gpu(real, lanes),
            segment_max.make_gpu(2, real, lanes),
        ):
            yield f"any d, {rows}", made


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
                        f"{_room(made.module)}: {name}, {dim}",
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


def _room(module: Any) -> str:
    """Return the file of a kernel from the name of its module."""
    return re.sub(r"^permutogeo_|(_gpu)?(_\d+|_float32)+$", "", module.name)


def _describe(accesses: Counter[tuple[str, int]]) -> str:
    """Return the bits of the loads and stores of global memory, and their numbers."""
    kinds = (
        " + ".join(f"{n} x {bits}" for (each, bits), n in sorted(accesses.items()) if each == kind)
        for kind in ("load", "store")
    )
    return ", ".join(kinds)
