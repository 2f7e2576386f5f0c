"""Learned convolution along typed edges: between lattices of two resolutions, or between voxels.

The type of an edge is its tap. An edge adds its source times the matrix of its tap to its target.
``edges`` ``[2, E]`` holds sources and targets, sorted by block of targets and by tap: those of tap
``k`` in block ``b`` from ``begin[b K + k]`` to ``begin[b K + k + 1]``; entries after the last bound
are ignored. Blocks share no target, and the edges of one tap have distinct sources and targets, so
that the order of sums is fixed.

``back`` holds the same edges reversed, sorted by their own targets; its tap ``k`` is the tap
``opposite[k]`` of ``edges``, and the other way round. ``sort_edges`` makes the edges of a table
``[targets, K]`` of sources, ``-1`` where absent.

``convolve_edges`` and ``correlate_edges`` are derivatives of the trilinear form
``sum_e values_{source(e)} @ filter_{tap(e)} @ grad_{target(e)}``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from permutogeo.kernels import convolve_edges as kernels
from permutogeo.ops._library import define, ops
from permutogeo.ops.splat import combine
from permutogeo.runtime import bridge, memory, threads
from permutogeo.runtime.products import add_product, multiply, uses_onednn

# Size of a chunk of gathered rows: it fits into a core's cache.
_CHUNK_BYTES = 4 * 2**20
_FEW_EDGES = 2**16
# Partial sums of the filter's gradient, on any number of threads.
_PARTIAL_SUMS = 16
# Rows of a block of targets: large products are faster, several blocks keep several threads busy.
_FEWEST_ROWS, _FEW_ROWS, _MOST_ROWS = 1024, 4096, 8192


# Fewest rows of a neighbor table whose present neighbors alone are convolved, and the largest share
# of them, by the smaller number of channels: gathers and sums outweigh narrow products.
_FEWEST_TARGETS, _FEWEST_WIDE_TARGETS, _WIDE = 4096, 1024, 128
_MOST_PRESENT = ((48, 0.75), (24, 0.4))
# Rows of a neighbor table that are looked at.
_SAMPLE = 2048

Chunk = tuple[int, int, int]  # tap, first and last edge


def edges_pay(neighbors: torch.Tensor, inputs: int, outputs: int) -> bool:
    """Return whether convolving present neighbors alone is faster than gathering all of them.

    Args:
        neighbors: Neighbor table ``[M, K]``, ``-1`` where absent.
        inputs: Input channels.
        outputs: Output channels.
    """
    count, width = neighbors.shape[0], inputs if inputs < outputs else outputs
    if count < (_FEWEST_WIDE_TARGETS if width >= _WIDE else _FEWEST_TARGETS):
        return False
    if width < _MOST_PRESENT[-1][0] or neighbors.device.type != "cpu":
        return False
    most = next(share for least, share in _MOST_PRESENT if width >= least)
    sample = neighbors[:: -(-count // _SAMPLE)]
    return int(torch.count_nonzero(sample >= 0)) < most * sample.numel()


class _Chunks:
    """Edges of a convolution, in chunks whose rows fit into the workspace.

    Args:
        inputs: Channels of the sources.
        outputs: Channels of the targets.
    """

    def __init__(
        self, values: torch.Tensor, begin: torch.Tensor, taps: int, inputs: int, outputs: int
    ):
        self.values, self.products = values, inputs * outputs
        row_bytes = max(1, (inputs + outputs) * values.element_size())
        workspace = memory.get_workspace()
        self.size = max(1, min(_CHUNK_BYTES, workspace) // row_bytes)
        self.workers = max(1, workspace // (self.size * row_bytes))
        self.begin, self.taps = begin.tolist(), taps
        self.blocks = (len(self.begin) - 1) // max(1, taps)
        # torch's own threads suit one large block; for few edges they cost more than they save.
        pooled = self.blocks > 1 or self.begin[-1] < _FEW_EDGES
        self.pooled = values.device.type == "cpu" and pooled
        self.largest = min(self.size, self.begin[-1])

    def groups(self, block: int) -> Iterator[list[Chunk]]:
        """Yield the chunks of a block, small ones together with those that follow them.

        One gather and one sum serve all chunks of a group. On a GPU, each has its own: the targets
        of different taps may be equal.
        """
        group: list[Chunk] = []
        for tap, first, last in self._of(block):
            alone = self.values.device.type != "cpu"
            alone = alone or uses_onednn(self.values, (last - first) * self.products)
            if group and (alone or last - group[0][1] > self.size):
                yield group
                group = []
            group.append((tap, first, last))
            if alone:
                yield group
                group = []
        if group:
            yield group

    def _of(self, block: int) -> Iterator[Chunk]:
        for tap in range(self.taps):
            segment = block * self.taps + tap
            first, end = self.begin[segment], self.begin[segment + 1]
            for start in range(first, end, self.size):
                yield tap, start, min(start + self.size, end)

    def run(self, work: Callable[[Iterator[int]], None], count: int) -> None:
        """Distribute ``range(count)`` over the threads of the pool."""
        pending = iter(range(count))
        if not self.pooled:  # torch's own threads, or the stream of the calling thread
            with torch.no_grad():
                work(pending)
            return
        workers = min(threads.count(), self.workers, count)
        threads.run_without_grad([lambda: work(pending)] * workers)


def _convolve_edges(values, filter, edges, begin, back_edges, back_begin, opposite, num_targets):
    taps, inputs, outputs = filter.shape
    out = memory.full(num_targets, outputs, value=0, dtype=values.dtype, device=values.device)
    chunks = _Chunks(values, begin, taps, inputs, outputs)
    if 0 in (out.numel(), values.numel(), chunks.largest):
        return out
    values = values.detach().contiguous()
    matrix = filter.detach().transpose(1, 2).contiguous()
    source, target = edges.contiguous()
    device = values.device

    def work(blocks: Iterator[int]) -> None:
        gathered = values.new_empty(chunks.largest, inputs)
        product = values.new_empty(chunks.largest, outputs)
        rows = bridge.Rows(product, out)
        run = rows.load(kernels.make, kernels.make_gpu, values.dtype, device=device)
        add = bridge.prepare(run.add, product, target, out, device=device, inner=rows.blocks)
        if device.type == "cpu":
            add_in_order = bridge.prepare(run.add_in_order, 0, product, target, out, device=device)
        for block in blocks:
            for group in chunks.groups(block):
                start, end = group[0][1], group[-1][2]
                torch.index_select(values, 0, source[start:end], out=gathered[: end - start])
                for tap, first, last in group:
                    part = slice(first - start, last - start)
                    made = multiply(gathered[part], matrix[tap].t(), product[part])
                if len(group) == 1:
                    add(start, end - start, made)
                else:
                    add_in_order(start, 1, end - start)

    chunks.run(work, chunks.blocks)
    return out


def _correlate_edges(values, grad, edges, begin, back_edges, back_begin, opposite):
    taps, inputs, outputs = len(opposite), values.shape[1], grad.shape[1]
    chunks = _Chunks(values, begin, taps, inputs, outputs)
    parts = max(1, min(_PARTIAL_SUMS, chunks.blocks))
    sums = values.new_zeros(parts, taps, inputs, outputs)
    if 0 in (sums.numel(), chunks.largest):
        return sums[0]
    values, grad = values.detach().contiguous(), grad.detach().contiguous()
    source, target = edges

    def work(mine: Iterator[int]) -> None:
        left = values.new_empty(chunks.largest, inputs)
        right = grad.new_empty(chunks.largest, outputs)
        for part in mine:
            for block in range(part, chunks.blocks, parts):
                for group in chunks.groups(block):
                    start, end = group[0][1], group[-1][2]
                    torch.index_select(values, 0, source[start:end], out=left[: end - start])
                    torch.index_select(grad, 0, target[start:end], out=right[: end - start])
                    for tap, first, last in group:
                        rows = slice(first - start, last - start)
                        add_product(sums[part, tap], left[rows], right[rows])

    chunks.run(work, parts)
    return combine(sums)


def _adjoint(filter: torch.Tensor, opposite: torch.Tensor) -> torch.Tensor:
    """Return the filter of the reversed edges."""
    return filter.index_select(0, opposite).transpose(1, 2)


def _save_convolve(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs[:-1])


def _save_correlate(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward_convolve(ctx: Any, grad: torch.Tensor) -> tuple:
    values, filter, edges, begin, back_edges, back_begin, opposite = ctx.saved_tensors
    grad_values = grad_filter = None
    if ctx.needs_input_grad[0]:
        back = (back_edges, back_begin, edges, begin, opposite, values.shape[0])
        grad_values = ops.convolve_edges(grad, _adjoint(filter, opposite), *back)
    if ctx.needs_input_grad[1]:
        indices = (edges, begin, back_edges, back_begin, opposite)
        grad_filter = ops.correlate_edges(values, grad, *indices)
    return grad_values, grad_filter, None, None, None, None, None, None


def _backward_correlate(ctx: Any, grad: torch.Tensor) -> tuple:
    values, other, edges, begin, back_edges, back_begin, opposite = ctx.saved_tensors
    grad_values = grad_other = None
    if ctx.needs_input_grad[0]:
        back = (back_edges, back_begin, edges, begin, opposite, values.shape[0])
        grad_values = ops.convolve_edges(other, _adjoint(grad, opposite), *back)
    if ctx.needs_input_grad[1]:
        there = (edges, begin, back_edges, back_begin, opposite, other.shape[0])
        grad_other = ops.convolve_edges(values, grad, *there)
    return grad_values, grad_other, None, None, None, None, None


def _sort_edges(table, source_row, target_row):
    rows, taps = table.shape
    if table.device.type != "cpu":
        return _sort_on_device(table, source_row, target_row)
    block = _block_rows(rows)
    blocks = -(-rows // block)
    table = table.contiguous()
    run = bridge.load_kernels(kernels.make_sort, device=table.device)
    launch = partial(bridge.launch, device=table.device, grain=1)
    number = torch.zeros(blocks, taps, dtype=torch.int32)
    launch(run.count, blocks, block, table, number)
    begin = torch.zeros(blocks * taps + 1, dtype=torch.int64)
    torch.cumsum(number.view(-1), 0, out=begin[1:])
    _check_edges(int(begin[-1]))
    edges = memory.empty(2, int(begin[-1]), dtype=torch.int32, device=table.device)
    position = begin[:-1].view(blocks, taps).to(torch.int32)
    source, target = edges
    rows = (source_row, target_row)
    launch(run.place, blocks, block, table, *rows, position, source, target)
    return edges, begin


def _block_rows(rows: int) -> int:
    """Return the rows of a block: two blocks of a small table, at least 16 of a large one."""
    if rows < 2 * _FEW_ROWS:
        return max(_FEWEST_ROWS, -(-rows // 2))
    return max(_FEW_ROWS, min(_MOST_ROWS, -(-rows // 16)))


def _sort_on_device(table, source_row, target_row):
    """Sort all edges by tap, in one block: launches are as large as possible."""
    by_tap = table.t()
    tap, row = (by_tap >= 0).nonzero(as_tuple=True)
    _check_edges(len(tap))
    edges = torch.stack([source_row[by_tap[tap, row].long()], target_row[row]])
    bound = torch.arange(table.shape[1] + 1, device=table.device)
    return edges, torch.searchsorted(tap, bound).cpu()


def _check_edges(count: int) -> None:
    if count >= 2**31:
        raise ValueError(
            f"Expected fewer than {2**31} pairs of voxels in one convolution (got {count}); "
            f"convolve parts of the batch"
        )


def _fake_sort(table, source_row, target_row):
    context = torch.library.get_ctx()
    edges = table.new_empty(2, context.new_dynamic_size(min=0))
    begin = torch.empty(context.new_dynamic_size(min=1), dtype=torch.int64)
    return edges, begin


sort_edges = define(
    "sort_edges(Tensor table, Tensor source_row, Tensor target_row)"
    " -> (Tensor edges, Tensor begin)",
    _sort_edges,
    _fake_sort,
)

_INDICES = "Tensor edges, Tensor begin, Tensor back_edges, Tensor back_begin, Tensor opposite"

convolve_edges = define(
    f"convolve_edges(Tensor values, Tensor filter, {_INDICES}, SymInt num_targets) -> Tensor",
    _convolve_edges,
    lambda values, filter, edges, begin, back_edges, back_begin, opposite, num_targets: (
        values.new_empty(num_targets, filter.shape[2])
    ),
    save=_save_convolve,
    backward=_backward_convolve,
    linear=[0, 1],
)

correlate_edges = define(
    f"correlate_edges(Tensor values, Tensor grad, {_INDICES}) -> Tensor",
    _correlate_edges,
    lambda values, grad, edges, begin, back_edges, back_begin, opposite: values.new_empty(
        opposite.shape[0], values.shape[1], grad.shape[1]
    ),
    save=_save_correlate,
    backward=_backward_correlate,
    linear=[0, 1],
)
