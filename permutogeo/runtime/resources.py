"""Resource usage of kernels on CUDA devices, read from compiled code; no device is needed."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import warp as wp

from permutogeo.runtime import bridge

# Threads per block of Warp's launches.
BLOCK = 256
_WARP = 32
_REGISTERS = 65536
_ACCESS = re.compile(r"\b(LDG|STG)\.E((?:\.\w+)*)")
_LINE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")


@dataclass(frozen=True)
class Multiprocessor:
    """Limits of one multiprocessor, from the CUDA programming guide.

    Args:
        warps: Most resident warps.
        blocks: Most resident blocks.
        shared: Shared memory in bytes.
    """

    warps: int
    blocks: int
    shared: int


MULTIPROCESSORS = {
    80: Multiprocessor(64, 32, 164 * 1024),
    90: Multiprocessor(64, 32, 228 * 1024),
    120: Multiprocessor(48, 24, 100 * 1024),
}


@dataclass(frozen=True)
class Usage:
    """Resources of a kernel.

    Args:
        registers: Registers of a thread.
        local: Bytes of local memory of a thread: spilled registers, and arrays that are indexed at
            run time.
        shared: Bytes of shared memory of a block.
    """

    registers: int
    local: int
    shared: int

    def occupancy(self, architecture: int) -> float:
        """Return the share of a multiprocessor's warps that can be resident."""
        limit = MULTIPROCESSORS[architecture]
        each = -(-self.registers // 8) * 8 * _WARP  # allocated in units of 8 registers a thread
        warps = BLOCK // _WARP
        blocks = min(
            limit.blocks,
            limit.warps // warps,
            _REGISTERS // each // warps,
            limit.shared // max(self.shared, 1),
        )
        return blocks * warps / limit.warps


def find_cuobjdump() -> str | None:
    """Return the path of NVIDIA's ``cuobjdump``, on the path or from its Python package."""
    return _find("cuobjdump")


def _find(tool: str) -> str | None:
    found = shutil.which(tool)
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec and spec.submodule_search_locations) or ():
        for path in sorted(Path(folder).glob(f"*/bin/{tool}*")):
            found = found or str(path)
    return found


def compile_cubins(
    module: wp.Module, architectures: Sequence[int], folder: Path | str
) -> list[Path]:
    """Compile a module for CUDA architectures, such as 80 for ``sm_80``."""
    bridge.init()
    before = module.options["block_dim"]
    # What a launch on CUDA uses.
    module.options["block_dim"] = BLOCK
    try:
        with bridge._quiet():
            return wp.compile_aot_module(
                module, arch=list(architectures), module_dir=folder, use_ptx=False
            )
    finally:
        # The options belong to a module that also runs on the CPU.
        module.options["block_dim"] = before


def read_usage(cubin: Path) -> dict[str, Usage]:
    """Return the resources of each kernel of a cubin, by the kernel's name."""
    command = [find_cuobjdump() or "cuobjdump", "--dump-resource-usage", str(cubin)]
    text = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    return parse_usage(text)


def parse_usage(text: str) -> dict[str, Usage]:
    """Return the resources of each kernel in the output of ``cuobjdump``."""
    found = {}
    for name, rest in _by_kernel(text):
        line = _LINE.search(rest)
        if line is None:
            raise ValueError(f"Expected the resources of a kernel (got {rest.strip()!r})")
        registers, stack, shared, local = map(int, line.groups())
        found[name] = Usage(registers, stack + local, shared)
    return found


def read_accesses(cubin: Path) -> dict[str, Counter[tuple[str, int]]] | None:
    """Return the accesses to global memory in the machine code of each kernel; ``None`` where
    NVIDIA's ``nvdisasm``, which ``cuobjdump`` calls, is not installed."""
    disassembler = _find("nvdisasm")
    if disassembler is None:
        return None
    command = [find_cuobjdump() or "cuobjdump", "--dump-sass", str(cubin)]
    path = os.pathsep.join([str(Path(disassembler).parent), os.environ.get("PATH", "")])
    options: dict = {"capture_output": True, "check": True, "text": True}
    text = subprocess.run(command, env={**os.environ, "PATH": path}, **options).stdout
    return parse_accesses(text)


def parse_accesses(text: str) -> dict[str, Counter[tuple[str, int]]]:
    """Return how many ``"load"`` and ``"store"`` instructions of how many bits each kernel has."""
    found = {}
    for name, rest in _by_kernel(text):
        counts: Counter[tuple[str, int]] = Counter()
        for kind, suffix in _ACCESS.findall(rest):
            bits = re.search(r"\.[US]?(8|16|64|128)\b", suffix)
            counts["load" if kind == "LDG" else "store", int(bits.group(1)) if bits else 32] += 1
        found[name] = counts
    return found


def _by_kernel(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and lines of each kernel in the output of ``cuobjdump``."""
    for symbol, rest in re.findall(r"Function ?:? (\w+):?\n(.*?)(?=\bFunction |\Z)", text, re.S):
        yield (
            re.sub(r"_[0-9a-f]{8}_cuda_kernel_forward$", "", symbol.rpartition("__locals__")[2]),
            rest,
        )
