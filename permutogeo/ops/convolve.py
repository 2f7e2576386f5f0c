"""Learned convolution on the lattice: neighbors gathered in chunks, one dense product per chunk.

``convolve`` and ``correlate`` are derivatives of the trilinear form
``sum_vk values_{neighbor_k(v)} @ filter_k @ grad_v``. The derivative in ``values`` is a convolution
too, since a stencil contains the negative of each offset (``opposite``). ``convolve_backward``
computes the gradients in the values and in the filter from one gathering.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.nn.functional import pad

from permutogeo.kernels import convolve as kernels
from permutogeo.ops._library import define, ops
from permutogeo.ops.neighbors import with_zero_row
from permutogeo.ops.splat import combine
from permutogeo.runtime import bridge, memory, threads
from permutogeo.runtime.products import multiply

# Size of a chunk of gathered rows: it fits into a core's cache.
_CHUNK_BYTES = 4 * 2**20
_CUDA_CHUNK_BYTES = 64 * 2**20
# MKL computes products of fewer columns than this five times as fast when transposed.
_FEW_COLUMNS = 12
# Partial sums of the filter's gradient, on any number of threads.
_PARTIAL_SUMS = 16


class _Gather:
    """Gathers the neighbors' values of a range of vertices, as a matrix for each group."""

    def __init__(self, values: torch.Tensor, neighbors: torch.Tensor, groups: int):
        self.values = with_zero_row(values)
        self.neighbors = neighbors
        self.groups = groups
        self.count, taps = neighbors.shape
        self.row = taps * values.shape[1]
        size = _CHUNK_BYTES if values.device.type == "cpu" else _CUDA_CHUNK_BYTES
        row_bytes = self.row * values.itemsize or 1
        workspace = memory.get_workspace()
        self.chunk = min(size, workspace) // row_bytes or 1
        self.workers = workspace // (self.chunk * row_bytes) or 1

    def chunks(self) -> list[tuple[int, int]]:
        """Return ranges of vertices whose neighbors fit into one buffer."""
        if self.count <= self.chunk:
            return [(0, self.count)]
        return [(i, min(i + self.chunk, self.count)) for i in range(0, self.count, self.chunk)]

    def reader(self) -> Callable[[int, int], torch.Tensor]:
        """Return a function that gathers a range of vertices into a buffer of its own.

        It returns ``[groups, last - first, K C / groups]``, valid until the next call.
        """
        taps, channels = self.neighbors.shape[1], self.values.shape[1]
        buffer = self.values.new_empty(min(self.chunk, self.count) * taps, channels)
        fill = self._prepare(buffer)

        def read(first: int, last: int) -> torch.Tensor:
            fill(first, last - first)
            part = buffer if last - first == self.count else buffer[: (last - first) * taps]
            if self.groups == 1:
                return part.view(1, last - first, self.row)
            by_group = part.view(last - first, taps, self.groups, -1).permute(2, 0, 1, 3)
            return by_group.reshape(self.groups, last - first, self.row // self.groups)

        return read

    def _prepare(self, buffer: torch.Tensor) -> Callable[..., None]:
        """Return a recorded launch that gathers rows into ``buffer``."""
        values, device = self.values, self.values.device
        rows = bridge.Rows(values, buffer)
        run = rows.load(kernels.make, kernels.make_gpu, values.dtype, device=device)
        return bridge.prepare(
            run.gather,
            self.neighbors,
            values,
            buffer,
            device=device,
            inner=(self.neighbors.shape[1], *rows.blocks) if rows.lanes else (),
        )

    def run(self, work: Callable[[Iterable], None], items: Sequence) -> None:
        """Distribute ``items`` over as many workers as the workspace allows."""
        if self.values.device.type != "cpu":  # streams belong to the calling thread
            with torch.no_grad():
                work(items)
            return
        if threads.count() == 1:
            work(items)  # grad mode is off already: operators are called without a graph
            return
        pending = iter(items)
        workers = min(threads.count(), self.workers, len(items))
        threads.run_without_grad([lambda: work(pending)] * workers)


def _is_small(values: torch.Tensor, neighbors: torch.Tensor, groups: int) -> bool:
    """Return whether torch alone gathers and multiplies: on one thread, where all vertices fit
    one chunk, its two calls are faster than ours. The products are the same."""
    (count, taps), channels = neighbors.shape, values.shape[1]
    size = count * taps * (channels + 3) * values.itemsize  # with padding
    if groups != 1 or count * channels == 0 or size > _CHUNK_BYTES or values.device.type != "cpu":
        return False
    return size <= memory.get_workspace() and threads.count() == 1


def _gather_all(values: torch.Tensor, neighbors: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Return the neighbors' values of all vertices ``[M, K (C + extra)]``, and ``extra``."""
    extra = _padding(values, 1)
    padded = torch.constant_pad_nd(values, (0, extra, 0, 1))
    count, taps = neighbors.shape
    rows = padded.new_empty(count, taps, padded.shape[1])
    # Faster for short rows than `index_select`. The last row, of zeros, stands for absent ones.
    padded.numpy().take(neighbors.numpy(), 0, rows.numpy(), "wrap")
    return rows.view(count, -1), extra


def _convolve_small(values, filter, neighbors):
    rows, extra = _gather_all(values, neighbors)
    if extra:
        filter = pad(filter, (0, 0, 0, extra))
    return _product(rows, _matrix(filter, 1)[0])


def _convolve_small_backward(values, filter, grad, neighbors, opposite):
    rows, extra = _gather_all(grad, neighbors)
    if extra:
        filter = pad(filter, (0, extra))
    grad_values = _product(rows, _matrix(_transposed(filter, opposite, 1), 1)[0])
    sums = _sum_outer(values, rows)
    return grad_values, _filter_gradient(sums, neighbors, opposite, 1, grad.shape[1])


def _sum_outer(values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return the sum of the outer products of the rows of two matrices."""
    if rows.shape[1] < _FEW_COLUMNS:
        return torch.mm(rows.t(), values).t().contiguous()
    return torch.mm(values.t(), rows)


def _product(rows: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    if matrix.shape[1] < _FEW_COLUMNS:
        return torch.mm(matrix.t(), rows.t()).t().contiguous()
    return multiply(rows, matrix)


def _convolve(values, filter, neighbors, opposite, groups):
    if filter.shape[2] and _is_small(values, neighbors, groups):
        return _convolve_small(values, filter, neighbors)
    out = memory.empty(
        neighbors.shape[0], filter.shape[2], dtype=values.dtype, device=values.device
    )
    if out.numel() == 0 or filter.numel() == 0:
        return out.zero_()
    extra = _padding(values, groups)
    if extra:
        values, filter = pad(values, (0, extra)), pad(filter, (0, 0, 0, extra))
    gather = _Gather(values, neighbors, groups)
    matrix = _matrix(filter.detach(), groups)

    def work(chunks: Iterable[tuple[int, int]]) -> None:
        read = gather.reader()
        for first, last in chunks:
            _multiply(read(first, last), matrix, out[first:last])

    gather.run(work, gather.chunks())
    return out


def _convolve_backward(values, filter, grad, neighbors, opposite, groups):
    """Return the gradients in the values and in the filter, from the neighbors of ``grad``."""
    if values.shape[1] and _is_small(grad, neighbors, groups):
        return _convolve_small_backward(values, filter, grad, neighbors, opposite)
    grad_values = memory.empty(*values.shape, dtype=values.dtype, device=values.device)
    if values.numel() == 0 or grad.numel() == 0:
        return grad_values.zero_(), torch.zeros_like(filter)
    outputs, extra = grad.shape[1], _padding(grad, groups)
    if extra:
        grad, filter = pad(grad, (0, extra)), pad(filter, (0, extra))
    matrix = _matrix(_transposed(filter.detach(), opposite, groups), groups)
    sums = _sum_outer_products(values, grad, neighbors, groups, (matrix, grad_values))
    return grad_values, _filter_gradient(sums, neighbors, opposite, groups, outputs)


def _correlate(values, grad, neighbors, opposite, groups):
    """Return the filter's gradient, gathering neighbors of the operand with fewer channels."""
    if values.numel() == 0 or grad.numel() == 0:
        return values.new_zeros(neighbors.shape[1], values.shape[1] // groups, grad.shape[1])
    if values.shape[1] > grad.shape[1]:
        return _gathered_correlation(values, grad, neighbors, opposite, groups)
    exchanged = _gathered_correlation(grad, values, neighbors, opposite, groups)
    return _transposed(exchanged, opposite, groups).contiguous()


def _gathered_correlation(values, grad, neighbors, opposite, groups):
    """Return the filter's gradient from the neighbors of ``grad``."""
    if _is_small(grad, neighbors, groups):
        rows, _ = _gather_all(grad, neighbors)
        sums = _sum_outer(values, rows)
        return _filter_gradient(sums, neighbors, opposite, groups, grad.shape[1])
    outputs, extra = grad.shape[1], _padding(grad, groups)
    if extra:
        grad = pad(grad, (0, extra))
    sums = _sum_outer_products(values, grad, neighbors, groups)
    return _filter_gradient(sums, neighbors, opposite, groups, outputs)


def _sum_outer_products(values, grad, neighbors, groups, product=None):
    """Return ``sum_v values_v^T [grad at neighbor k of v]_k`` for each group.

    Args:
        product: A matrix per group by which the gathered rows are multiplied, and the output.
    """
    count, channels = values.shape
    gather = _Gather(grad, neighbors, groups)
    columns = values.detach().reshape(count, groups, -1).permute(1, 2, 0)  # [groups, C, M]
    chunks = gather.chunks()
    parts = min(_PARTIAL_SUMS, len(chunks))
    sums = values.new_zeros(parts, groups, channels // groups, gather.row // groups)

    def work(mine: Iterable[int]) -> None:
        read = gather.reader()
        for part in mine:
            for first, last in chunks[part::parts]:
                rows = read(first, last)
                if product is not None:
                    matrix, out = product
                    _multiply(rows, matrix, out[first:last])
                if groups == 1 and gather.row < _FEW_COLUMNS:
                    sums[part, 0] += _sum_outer(columns[0, :, first:last].t(), rows[0])
                elif groups == 1:
                    sums[part, 0].addmm_(columns[0, :, first:last], rows[0])
                else:
                    sums[part].baddbmm_(columns[:, :, first:last], rows)

    gather.run(work, range(parts))
    return combine(sums)


def _filter_gradient(sums, neighbors, opposite, groups, outputs):
    """Return sums ``[groups, C_in / groups, K C_out / groups]`` in the layout of the filter; of one
    group, ``[C_in, K C_out]`` too.

    If ``u`` is the neighbor ``k`` of ``v``, then ``v`` is the opposite neighbor of ``u``: sums over
    the neighbors of the gradient belong to the opposite taps.
    """
    taps, width = neighbors.shape[1], sums.shape[-2]
    if groups == 1:
        by_tap = sums.view(width, taps, -1).transpose(0, 1)
        return by_tap[..., :outputs].index_select(0, opposite)
    grouped = sums.view(groups, width, taps, -1).permute(2, 1, 0, 3).reshape(taps, width, -1)
    return grouped[..., :outputs].index_select(0, opposite)


def _padding(values: torch.Tensor, groups: int) -> int:
    """Return how many zero channels to append so that rows are a multiple of four."""
    return -values.shape[1] % 4 if groups == 1 and values.shape[1] % 4 > 1 else 0


def _matrix(filter: torch.Tensor, groups: int) -> torch.Tensor:
    """Return the filter as a matrix per group, ``[groups, K C_in / groups, C_out / groups]``."""
    taps, _, outputs = filter.shape
    if groups == 1 and outputs >= _FEW_COLUMNS:
        return filter.reshape(1, -1, outputs)
    grouped = filter.reshape(taps, -1, groups, outputs // groups).permute(2, 0, 1, 3)
    matrix = grouped.reshape(groups, -1, outputs // groups)
    return matrix.mT.contiguous().mT if matrix.shape[2] < _FEW_COLUMNS else matrix


def _multiply(rows: torch.Tensor, matrix: torch.Tensor, out: torch.Tensor) -> None:
    """Write the product of rows and matrix of each group to ``out``, groups side by side."""
    if matrix.shape[0] == 1 and out.shape[1] < _FEW_COLUMNS:
        out.copy_(torch.mm(matrix[0].t(), rows[0].t()).t())
    elif matrix.shape[0] == 1:
        product = multiply(rows[0], matrix[0], out)
        if product is not out:
            out.copy_(product)
    else:
        out.copy_(torch.bmm(rows, matrix).transpose(0, 1).reshape(out.shape))


def _transposed(filter: torch.Tensor, opposite: torch.Tensor, groups: int) -> torch.Tensor:
    """Return the filter of the adjoint: taps exchanged with their opposites, channels swapped."""
    taps, width, out_channels = filter.shape
    if groups == 1:
        return filter.index_select(0, opposite).transpose(1, 2).contiguous()
    grouped = filter.index_select(0, opposite).view(taps, width, groups, out_channels // groups)
    return grouped.permute(0, 3, 2, 1).reshape(taps, out_channels // groups, groups * width)


def _save(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    *tensors, ctx.groups = inputs
    ctx.save_for_backward(*tensors)


def _backward_convolve(ctx: Any, grad: torch.Tensor) -> tuple:
    values, filter, neighbors, opposite = ctx.saved_tensors
    indices = (neighbors, opposite, ctx.groups)
    grad_values = grad_filter = None
    if ctx.needs_input_grad[0] and ctx.needs_input_grad[1]:
        grad_values, grad_filter = ops.convolve_backward(values, filter, grad, *indices)
    elif ctx.needs_input_grad[0]:
        grad_values = ops.convolve(grad, _transposed(filter, opposite, ctx.groups), *indices)
    elif ctx.needs_input_grad[1]:
        grad_filter = ops.correlate(values, grad, *indices)
    return grad_values, grad_filter, None, None, None


def _backward_backward(ctx: Any, grad_values: torch.Tensor, grad_filter: torch.Tensor) -> tuple:
    values, filter, grad, neighbors, opposite = ctx.saved_tensors
    indices = (neighbors, opposite, ctx.groups)

    def transposed(bank: torch.Tensor) -> torch.Tensor:
        return _transposed(bank, opposite, ctx.groups)

    return (
        ops.convolve(grad, transposed(grad_filter), *indices),
        transposed(ops.correlate(grad, grad_values, *indices)),
        ops.convolve(grad_values, filter, *indices) + ops.convolve(values, grad_filter, *indices),
        None,
        None,
        None,
    )


def _jvp_backward(inputs: tuple, tangents: tuple) -> tuple:
    values, filter, grad, *indices = inputs
    d_values, d_filter, d_grad, *_ = (
        torch.zeros_like(primal) if tangent is None else tangent
        for primal, tangent in zip(inputs[:3], tangents[:3], strict=True)
    )
    grad_values, grad_filter = ops.convolve_backward(values, filter, d_grad, *indices)
    neighbors, opposite, groups = indices
    adjoint = _transposed(d_filter, opposite, groups)
    return (
        grad_values + ops.convolve(grad, adjoint, neighbors, opposite, groups),
        grad_filter + ops.correlate(d_values, grad, neighbors, opposite, groups),
    )


def _backward_correlate(ctx: Any, grad: torch.Tensor) -> tuple:
    values, other, neighbors, opposite = ctx.saved_tensors
    grad_values = grad_other = None
    if ctx.needs_input_grad[0]:
        adjoint = _transposed(grad, opposite, ctx.groups)
        grad_values = ops.convolve(other, adjoint, neighbors, opposite, ctx.groups)
    if ctx.needs_input_grad[1]:
        grad_other = ops.convolve(values, grad, neighbors, opposite, ctx.groups)
    return grad_values, grad_other, None, None, None


convolve = define(
    "convolve(Tensor values, Tensor filter, Tensor neighbors, Tensor opposite, int groups)"
    " -> Tensor",
    _convolve,
    lambda values, filter, neighbors, opposite, groups: values.new_empty(
        values.shape[0], filter.shape[2]
    ),
    save=_save,
    backward=_backward_convolve,
    linear=[0, 1],
)

correlate = define(
    "correlate(Tensor values, Tensor grad, Tensor neighbors, Tensor opposite, int groups)"
    " -> Tensor",
    _correlate,
    lambda values, grad, neighbors, opposite, groups: values.new_empty(
        neighbors.shape[1], values.shape[1] // groups, grad.shape[1]
    ),
    save=_save,
    backward=_backward_correlate,
    linear=[0, 1],
)

convolve_backward = define(
    "convolve_backward(Tensor values, Tensor filter, Tensor grad, Tensor neighbors,"
    " Tensor opposite, int groups) -> (Tensor, Tensor)",
    _convolve_backward,
    lambda values, filter, grad, neighbors, opposite, groups: (
        values.new_empty(values.shape),
        filter.new_empty(filter.shape),
    ),
    save=_save,
    backward=_backward_backward,
    jvp=_jvp_backward,
)
