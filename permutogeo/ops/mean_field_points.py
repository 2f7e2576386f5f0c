"""Points of mean field: their normalized corners on all lattices, and the slots they splat into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from permutogeo.kernels import mean_field_points as kernels
from permutogeo.ops.mean_field_blur import Blur, Slots
from permutogeo.runtime import bridge, memory, threads

# Runs of points, each of which one thread splats; fixed, so that results do not depend on threads.
_MOST_RUNS = 8
_FEWEST_POINTS = 8192
# Numbers of a cache line.
_LINE = 16
_CPU = torch.device("cpu")
# Powers of the response to ones before and after a kernel.
_POWERS = {
    None: (kernels.NONE, kernels.NONE),
    "before": (kernels.RECIPROCAL, kernels.NONE),
    "after": (kernels.NONE, kernels.RECIPROCAL),
    "symmetric": (kernels.RECIPROCAL_ROOT, kernels.RECIPROCAL_ROOT),
}


@dataclass(frozen=True, eq=False)
class Corners:
    """Corners of the points on one lattice, and the kernel on it.

    Args:
        vertex: Vertices of each point, ``[N, k]`` int32, none absent.
        weight: Barycentric weights, ``[N, k]``.
        num_vertices: Vertices of the lattice.
        normalize: Normalization of the kernel, as in :class:`permutogeo.nn.DenseCRF`.
        blur: The kernel, if it is a blur.
        response: Response of the kernel to ones, ``[M]``, if it is known; needed for normalized
            kernels that are no blur.
    """

    vertex: Tensor
    weight: Tensor
    num_vertices: int
    normalize: str | None = None
    blur: Blur | None = None
    response: Tensor | None = None


class JoinedPoints:
    """Corners of the points on all lattices in one row.

    Args:
        lattices: The corners on each lattice.
        count: Number of points.

    Attributes:
        runs: Edges of the runs of points, ``[R + 1]`` int32. Each run has its own slots, so that
            threads do not write to the same place.
        base: First slot of each run, ``[R]`` int32.
        slot: Slot of each corner after the first of its run, ``[N, corners]`` int32.
        source: Weights of the splat, ``[N, corners]`` float32.
        target: Weights of the slice; may be ``source``.
        owner: Row of the vertex of each slot, ``-1`` for none, ``[S]`` int32.
        edge: First row of each lattice, and the number of rows.
        slots: For each lattice, the slot of each vertex and those of further runs: see ``Slots``.
        response: For each lattice the response to ones, ``[M]``, or ``None`` if not normalized.
    """

    def __init__(self, lattices: Sequence[Corners], count: int):
        self.count, self.corners = count, sum(each.vertex.shape[1] for each in lattices)
        self.edge = list(accumulate((each.num_vertices for each in lattices), initial=0))
        self._columns = list(accumulate((each.vertex.shape[1] for each in lattices), initial=0))
        runs = max(1, min(_MOST_RUNS, count // _FEWEST_POINTS))
        self.runs = torch.tensor([count * r // runs for r in range(runs + 1)], dtype=torch.int32)
        self._tools = bridge.load_kernels(kernels.make_slots, self.corners, device=_CPU)
        vertex, self.source = self._join(lattices)
        self.slot = self._number(vertex)
        self.slots = self._assemble()
        self.response = self._respond(lattices)
        self.target = self._scale(lattices)

    @property
    def num_slots(self) -> int:
        """Rows of the sums: a slot for vertices without points is the last."""
        return len(self.owner) + 1

    @property
    def num_runs(self) -> int:
        return len(self.base)

    def _join(self, lattices: Sequence[Corners]) -> tuple[Tensor, Tensor]:
        """Return the rows of the vertices, and the weights."""
        shape = self.count, self.corners
        vertex = memory.empty(*shape, dtype=torch.int32, device=_CPU)
        weight = memory.empty(*shape, dtype=torch.float32, device=_CPU)
        for row, columns, each in zip(self.edge, pairwise(self._columns), lattices, strict=False):
            run = self._load_corners(each)
            bridge.launch(
                run.join,
                self.count,
                row,
                each.vertex.contiguous(),
                each.weight.detach().contiguous(),
                *(out[:, slice(*columns)] for out in (vertex, weight)),
                device=_CPU,
                grain=_FEWEST_POINTS,
            )
        return vertex, weight

    def _number(self, vertex: Tensor) -> Tensor:
        """Number the slots and return those of the corners, in the memory of their vertices."""
        runs, rows = len(self.runs) - 1, self.edge[-1]
        workers = min(runs, threads.count())
        table = memory.full(workers, max(1, rows), value=0, dtype=torch.int32, device=_CPU)
        visited = torch.empty(self.count * self.corners, dtype=torch.int32)
        size = torch.zeros(runs, dtype=torch.int32)
        bridge.launch(
            self._tools.number,
            workers,
            *(workers, rows, self.runs, vertex, table.view(-1), visited, size),
            device=_CPU,
            grain=1,
        )
        # Runs begin at whole cache lines.
        sizes = size.tolist()
        edge = list(accumulate((-(-each // _LINE) * _LINE for each in sizes), initial=0))
        self.base = torch.tensor(edge[:-1], dtype=torch.int32)
        self.owner = torch.full((edge[-1],), -1, dtype=torch.int32)
        begins = (self.corners * self.runs.long()).tolist()
        for begin, into, number in zip(begins, edge, sizes, strict=False):
            self.owner[into : into + number] = visited[begin : begin + number]
        return vertex

    def _assemble(self) -> list[tuple[Tensor, Tensor]]:
        """Return the slots of the vertices of each lattice."""
        run = bridge.load_kernels(kernels.make_lists, device=_CPU)
        none = len(self.owner)
        out: dict[int, tuple[Tensor, Tensor]] = {}

        def assemble(m: int) -> None:
            first, last = self.edge[m : m + 2]
            main = torch.full((last - first,), none, dtype=torch.int32)
            extra, number = torch.empty(2, none, dtype=torch.int32), torch.zeros(1).int()
            bridge.launch(
                run.assemble,
                1,
                *(first, self.owner, main, *extra, number),
                device=_CPU,
            )
            out[m] = main, extra[:, : int(number)].clone()

        threads.run_without_grad([partial(assemble, m) for m in range(len(self.edge) - 1)])
        return [out[m] for m in range(len(out))]

    def _respond(self, lattices: Sequence[Corners]) -> list[Tensor | None]:
        """Return the responses to ones."""
        response = [each.response if each.normalize else None for each in lattices]
        wanted = [m for m, each in enumerate(lattices) if each.normalize and each.response is None]
        if not wanted:
            return response
        sums = memory.full(self.num_slots, 1, value=0, dtype=torch.float32, device=_CPU)
        arrays = (self.runs, self.base, self.slot, self.source, sums)
        bridge.launch(self._tools.ones, self.num_runs, *arrays, device=_CPU, grain=1)

        def blur(m: int) -> None:
            kernel = lattices[m].blur
            assert kernel is not None
            slots = Slots(*self.slots[m], sums, sums, lanes=1)
            response[m] = slots.blur_to_vertices(kernel).view(-1)

        threads.run_without_grad([partial(blur, m) for m in wanted])
        return response

    def _scale(self, lattices: Sequence[Corners]) -> Tensor:
        """Multiply the weights by powers of the responses; return the weights of the slice."""
        powers = [_POWERS[each.normalize] for each in lattices]
        if all(before == after for before, after in powers):
            target = self.source
        else:
            target = memory.empty(*self.source.shape, dtype=torch.float32, device=_CPU)
        for m, each in enumerate(lattices):
            response, columns = self.response[m], slice(*self._columns[m : m + 2])
            if response is None:
                target[:, columns] = self.source[:, columns]
                continue
            bridge.launch(
                self._load_corners(each).scale,
                self.count,
                *(*powers[m], each.vertex.contiguous()),
                response.view(-1),
                *(out[:, columns] for out in (self.source, target)),
                device=_CPU,
                grain=_FEWEST_POINTS,
            )
        return target

    def _load_corners(self, each: Corners) -> Any:
        key = each.vertex.shape[1], each.weight.dtype
        return bridge.load_kernels(kernels.make_corners, *key, device=_CPU)
