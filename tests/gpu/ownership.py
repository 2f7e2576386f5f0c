"""Checks of the launch contract: every element of an output is written by one index alone.

Each launch is taken apart: its indices run one by one on the state before the launch, and the
words that each of them writes are recorded. They must not overlap, and must lie in arguments that
the kernel's signature declares as outputs (a comment with ``out``). Then no schedule of threads,
on a CPU or a GPU, can change a result.

Usage: ``ownership.py cpu|cuda DIMS``, such as ``1,2,3``.
"""

import ast
import contextlib
import inspect
import re
import sys
import textwrap
from functools import cache
from unittest import mock

import numpy as np
import torch
import warp as wp
from fake_cuda import FakeCuda, on_device  # first

from permutogeo import Lattice
from permutogeo.ops import insert
from permutogeo.runtime import bridge

# Their indices share slots, by compare-and-swap, or marks, which all of them set to 1.
SHARED = {"claim", "insert", "move", "mark"}
UNTOUCHED = 0x7B


@cache
def arguments(kernel) -> list[tuple[str, str]]:
    """Name and role of each array: 'in', 'out' or 'both', read from the signature's comments."""
    source = textwrap.dedent(inspect.getsource(kernel.func))
    function = next(n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef))
    lines = source.splitlines()
    roles, last = [], "in"
    for argument in function.args.args:
        comment = lines[argument.end_lineno - 1].partition("#")[2]
        continues = re.fullmatch(r".*[a-z](4|1)", argument.arg) and not comment
        if not continues:
            out = re.search(r"\bout\b", comment)
            kept = re.search(r"by the caller|\bin and out\b|is not written", comment)
            last = "both" if out and kept else "out" if out else "in"
        roles.append((argument.arg, last))
    return roles


class Checker:
    """Stands in for ``bridge.launch``; counts launches and indices."""

    def __init__(self):
        self.memory: dict[int, torch.Tensor] = {}
        self.launches, self.indices, self.kernels = 0, 0, set()
        self.run = wp.launch

    def words(self, descriptor) -> np.ndarray | None:
        """The storage behind an argument, as 32-bit words."""
        owner = self.memory.get(descriptor.data)
        if owner is None:
            return None
        with torch._C.DisableTorchFunction():
            storage = owner.untyped_storage()
            flat = torch.empty(0, dtype=torch.uint8).set_(storage)
            return flat[: storage.nbytes() // 4 * 4].numpy().view(np.uint32)

    def launch(self, kernel, size, *args, device, inner=(), grain=1024):
        if size == 0:
            return
        self.memory = {each.data_ptr(): each for each in args if isinstance(each, torch.Tensor)}
        args = bridge.describe_arguments(kernel, args)
        self.launches += 1
        name = kernel.key.rpartition("__locals__")[2]
        self.kernels.add(name)
        roles = arguments(kernel)
        arrays = {}
        for (name, role), argument in zip(roles[1:], args, strict=True):
            if isinstance(argument, bridge.Descriptor) and argument.data:
                found = self.words(argument)
                if found is not None:
                    place = found.__array_interface__["data"][0]
                    known = arrays.get(place)
                    role = role if known is None or known[2] == "in" else known[2]
                    arrays[place] = (found, name, role)
        if kernel.key.rpartition("__locals__")[2] in SHARED:
            self.run(kernel, (size, *inner), inputs=[0, *args], device="cpu")
            return
        before = {place: words.copy() for place, (words, _, _) in arrays.items()}
        for words, _, role in arrays.values():
            if role == "out":
                words.view(np.uint8)[:] = UNTOUCHED
        start = {place: words.copy() for place, (words, _, _) in arrays.items()}
        owner = {place: np.full(len(words), -1) for place, words in start.items()}
        for index in range(size):
            self.indices += 1
            self.run(kernel, (1, *inner), inputs=[index, *args], device="cpu")
            for place, (words, name, role) in arrays.items():
                written = np.flatnonzero(words != start[place])
                if not len(written):
                    continue
                assert role != "in", f"{kernel.key} writes its input '{name}'"
                taken = owner[place][written]
                assert (taken < 0).all(), (
                    f"{kernel.key}: indices {taken.max()} and {index} write the same of '{name}'"
                )
                owner[place][written] = index
                words[written] = start[place][written]
        for index in {0, size // 2}:
            for axis in range(len(inner)):
                self.check_inner(kernel, index, inner, axis, args, arrays, start)
        for place, (words, _, _) in arrays.items():
            words[:] = before[place]
        self.run(kernel, (size, *inner), inputs=[0, *args], device="cpu")

    def check_inner(self, kernel, index, inner, axis, args, arrays, start):
        """Check that the threads of one index write words of their own along an inner axis.

        The axis is launched to one more position each time: what the next one writes differs from
        what the ones before it left.
        """
        left = {place: words.copy() for place, words in start.items()}
        for extent in range(1, inner[axis] + 1):
            shape = [*inner[:axis], extent, *inner[axis + 1 :]]
            self.run(kernel, (1, *shape), inputs=[index, *args], device="cpu")
            for place, (words, name, _) in arrays.items():
                again = (words != left[place]) & (left[place] != start[place])
                assert not again.any(), f"{kernel.key}: two threads write the same of '{name}'"
                left[place] = words.copy()
                words[:] = start[place]

    def prepare(self, kernel, *args, device, inner=()):
        def call(first, size, *changed):
            rest = args[len(changed) :]
            self.launch(kernel, size, first, *changed, *rest, device=device, inner=inner)

        return call

    @contextlib.contextmanager
    def active(self):
        with contextlib.ExitStack() as stack:
            for name, new in (
                ("launch", self.launch),
                ("prepare", self.prepare),
            ):
                stack.enter_context(mock.patch.object(bridge, name, new))
            yield


def exercise(dim: int, place) -> None:
    """Call every operator on a few points."""
    generator = torch.Generator().manual_seed(dim)
    feature = torch.randn(24, dim, generator=generator, dtype=torch.float64)
    feature, batch = place(feature), place(torch.arange(24) // 9)
    lattice = Lattice.build(feature, batch)
    x = place(torch.randn(24, 21, generator=generator, dtype=torch.float64))
    values = lattice.splat(x)
    sorted_plan = lattice.incidence.splat_plan(sort=True)
    torch.ops.permutogeo.splat.default(
        x, lattice.weight, lattice.vertex, lattice.num_vertices, *sorted_plan
    )
    same = Lattice.build(place(torch.zeros(70, dim, dtype=torch.float64)))
    same.splat(place(torch.randn(70, 21, generator=generator, dtype=torch.float64)))
    for channels in (21, 16):
        lattice.blur(values[:, :channels].contiguous())
    lattice.slice(lattice.blur(values), lattice.locate(feature[:9], batch[:9]))
    taps = lattice.neighbors(stencil="axis").shape[1]
    for groups, shape in ((1, (taps, 21, 5)), (21, (taps, 1, 21))):
        bank = place(torch.randn(shape, generator=generator, dtype=torch.float64))
        lattice.convolve(values, bank, groups=groups, stencil="axis")
    shared = place(torch.randn(taps, generator=generator, dtype=torch.float64))
    lattice.convolve(values, shared, stencil="axis", shared=True)
    _, at = lattice.coarsen()
    order = torch.ops.permutogeo.vertex_order.default(at.vertex, at.num_vertices)
    segments = (at.vertex, *order)
    most = torch.ops.permutogeo.segment_max.default(values, *segments)
    torch.ops.permutogeo.attaining.default(values, values, most, *segments)
    torch.ops.permutogeo.spread.default(most, values, most, *segments)
    neighbors = lattice.neighbors(stencil="axis")
    opposite = torch.ops.permutogeo.opposite.default(lattice.code, dim, 1, "axis")
    ops = torch.ops.permutogeo
    ops.correlate.default(values, values, neighbors, opposite, 1)
    for shared in (True, False):
        ops.correlate_channelwise.default(values, values, neighbors, opposite, shared)
    ops.dot.default(x, values, lattice.vertex, None, None, None)
    edge_operators(values, neighbors, opposite, place)
    ops.embed_tangent.default(feature, feature, 0.5)
    ops.embed_adjoint.default(lattice.weight, feature, 0.5)


def edge_operators(values, neighbors, opposite, place) -> None:
    """Convolve along the edges of the neighbor table."""
    ops = torch.ops.permutogeo
    count, taps = neighbors.shape
    row = place(torch.arange(count, dtype=torch.int32))
    sorted_edges = ops.sort_edges.default(neighbors, row, row)
    bank = place(torch.ones(taps, values.shape[1], 21, dtype=values.dtype))
    indices = (*sorted_edges, *sorted_edges, opposite)
    ops.convolve_edges.default(values, bank, *indices, count)
    ops.correlate_edges.default(values, values, *indices)


def main(device: str, dims: list[int]) -> None:
    checker = Checker()
    with contextlib.ExitStack() as stack:
        if device == "cuda":
            stack.enter_context(FakeCuda().active())
        else:
            torch.set_num_threads(4)
            several = mock.patch.object(insert, "_FEWEST_POINTS", 4)
            stack.enter_context(several)
        stack.enter_context(checker.active())
        for dim in dims:
            exercise(dim, on_device)
    kernels = " ".join(sorted(checker.kernels))
    print(f"{checker.launches} launches, {checker.indices} indices of {kernels}")


if __name__ == "__main__":
    main(sys.argv[1], [int(dim) for dim in sys.argv[2].split(",")])
