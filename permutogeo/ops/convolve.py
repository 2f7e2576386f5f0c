"""Learned filter banks on the lattice: neighbors gathered in chunks, and a dense product for each.

``convolve`` and ``correlate`` are two derivatives of one form,
``sum_vk values_{neighbor_k(v)} @ filter_k @ grad_v``; the third, in ``values``, is a convolution
too, since the stencil contains with every offset its negative (``opposite``). The backward of a
convolution needs the last two, which share what they gather: ``convolve_backward`` makes both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.functional import pad

from permutogeo import _threads, _warp
from permutogeo.kernels import convolve as kernels
from permutogeo.ops import workspace
from permutogeo.ops._library import define
from permutogeo.ops.rows import with_zero_row
from permutogeo.ops.splat import combine

ops = torch.ops.permutogeo

# A chunk of gathered rows stays in a core's cache.
_CHUNK_BYTES = 4 * 2**20
_CUDA_CHUNK_BYTES = 64 * 2**20
# Products with fewer columns than this are made as rows, which takes a fifth of the time.
_FEW_COLUMNS = 12
# Partial sums of the filter's gradient, whatever the number of threads.
_PARTIAL_SUMS = 16


class _Gather:
    """Neighbors' values of a range of vertices, as the rows of a matrix for each group."""

    def __init__(self, values: torch.Tensor, neighbors: torch.Tensor, groups: int):
        self.values = with_zero_row(values)
        self.neighbors = neighbors
        self.groups = groups
        taps, channels = neighbors.shape[1], values.shape[1]
        self.row = taps * channels
        self.run = _warp.kernels(kernels.make_gather, values.dtype, device=values.device)
        size = _CHUNK_BYTES if values.device.type == "cpu" else _CUDA_CHUNK_BYTES
        row_bytes = max(1, self.row * values.element_size())
        bound = workspace.get_workspace()
        self.chunk = max(1, min(size, bound) // row_bytes)
        self.workers = max(1, bound // (self.chunk * row_bytes))

    def chunks(self) -> list[tuple[int, int]]:
        count = len(self.neighbors)
        return [(i, min(i + self.chunk, count)) for i in range(0, count, self.chunk)]

    def reader(self) -> Callable[[int, int], torch.Tensor]:
        """A function with a buffer of its own, from a range of vertices to their matrices.

        They are ``[groups, last - first, K C / groups]`` and live until the next call.
        """
        taps, channels = self.neighbors.shape[1], self.values.shape[1]
        rows = min(self.chunk, len(self.neighbors))
        buffer = self.values.new_empty(rows * taps, channels)
        fill = _warp.prepare(
            self.run.gather,
            _warp.array(self.neighbors, 2),
            *_warp.rows(self.values),
            *_warp.rows(buffer),
            device=self.values.device,
        )

        def read(first: int, last: int) -> torch.Tensor:
            fill(first, last - first)
            part = buffer[: (last - first) * taps]
            if self.groups == 1:
                return part.view(1, last - first, self.row)
            by_group = part.view(last - first, taps, self.groups, -1).permute(2, 0, 1, 3)
            return by_group.reshape(self.groups, last - first, self.row // self.groups)

        return read


def _convolve(values, filter, neighbors, opposite, groups):
    out = _warp.empty(len(neighbors), filter.shape[2], dtype=values.dtype, device=values.device)
    if out.numel() == 0 or filter.numel() == 0:
        return out.zero_()
    extra = _to_whole_blocks(values, groups)
    if extra:
        values, filter = pad(values, (0, extra)), pad(filter, (0, 0, 0, extra))
    gather = _Gather(values, neighbors, groups)
    matrix = _matrix(filter.detach(), groups)

    def work(chunks: Iterator[tuple[int, int]]) -> None:
        read = gather.reader()
        for first, last in chunks:
            _multiply(read(first, last), matrix, out[first:last])

    _in_workers(work, gather.chunks(), gather)
    return out


def _convolve_backward(values, filter, grad, neighbors, opposite, groups):
    return _adjoint(values, grad, neighbors, opposite, groups, filter)


def _correlate(values, grad, neighbors, opposite, groups):
    """The filter's gradient, from the neighbors of whichever has fewer channels."""
    if values.shape[1] > grad.shape[1]:
        return _adjoint(values, grad, neighbors, opposite, groups, None)[1]
    # With u the neighbor k of v, v is the opposite neighbor of u.
    exchanged = _adjoint(grad, values, neighbors, opposite, groups, None)[1]
    return _transposed(exchanged, opposite, groups).contiguous()


def _adjoint(values, grad, neighbors, opposite, groups, filter):
    """Gradients in the values (where a filter is given) and in the filter, from one gathering.

    With ``u`` the neighbor ``k`` of ``v``, ``v`` is the opposite neighbor of ``u``: the filter's
    gradient too can be read from the neighbors of ``grad``.
    """
    taps, (count, channels), outputs = neighbors.shape[1], values.shape, grad.shape[1]
    grad_filter = values.new_zeros(taps, channels // groups, outputs)
    out = None
    if filter is not None:
        out = _warp.empty(count, channels, dtype=values.dtype, device=values.device)
    if values.numel() == 0 or grad.numel() == 0:
        return out if out is None else out.zero_(), grad_filter
    extra = _to_whole_blocks(grad, groups)
    if extra:
        grad, filter = pad(grad, (0, extra)), None if filter is None else pad(filter, (0, extra))
    gather = _Gather(grad, neighbors, groups)
    if filter is not None:
        matrix = _matrix(_transposed(filter.detach(), opposite, groups), groups)
    # [groups, C_in / groups, M]
    columns = values.detach().reshape(count, groups, -1).permute(1, 2, 0)
    chunks = gather.chunks()
    parts = min(_PARTIAL_SUMS, len(chunks))
    sums = values.new_zeros(parts, groups, channels // groups, gather.row // groups)

    def work(mine: Iterator[int]) -> None:
        read = gather.reader()
        for part in mine:
            for first, last in chunks[part::parts]:
                rows = read(first, last)
                if out is not None:
                    _multiply(rows, matrix, out[first:last])
                if groups == 1:
                    sums[part, 0].addmm_(columns[0, :, first:last], rows[0])
                else:
                    sums[part].baddbmm_(columns[:, :, first:last], rows)

    _in_workers(work, list(range(parts)), gather)
    total = combine(sums).view(groups, channels // groups, taps, -1)
    total = total.permute(2, 1, 0, 3).reshape(taps, channels // groups, -1)
    return out, total[..., :outputs].index_select(0, opposite)


def _to_whole_blocks(values: torch.Tensor, groups: int) -> int:
    """How many channels of zeros more are gathered faster, as whole blocks (kernels/rows.py)."""
    return -values.shape[1] % 4 if groups == 1 and values.shape[1] % 4 > 1 else 0


def _matrix(filter: torch.Tensor, groups: int) -> torch.Tensor:
    """The filter as one matrix for each group, ``[groups, K C_in / groups, C_out / groups]``."""
    taps, _, outputs = filter.shape
    grouped = filter.reshape(taps, -1, groups, outputs // groups).permute(2, 0, 1, 3)
    matrix = grouped.reshape(groups, -1, outputs // groups)
    return matrix.mT.contiguous().mT if matrix.shape[2] < _FEW_COLUMNS else matrix


def _multiply(rows: torch.Tensor, matrix: torch.Tensor, out: torch.Tensor) -> None:
    """Gathered rows of each group times its matrix, side by side into ``out``."""
    if len(matrix) == 1 and out.shape[1] < _FEW_COLUMNS:
        out.copy_(torch.mm(matrix[0].t(), rows[0].t()).t())
    elif len(matrix) == 1:
        torch.mm(rows[0], matrix[0], out=out)
    else:
        out.copy_(torch.bmm(rows, matrix).transpose(0, 1).reshape(out.shape))


def _in_workers(work: Any, items: list, gather: _Gather) -> None:
    """Let each worker take items in turn, with as many workers as the working memory allows."""
    pending = iter(items)
    if gather.values.device.type != "cpu":  # the caller's stream is the caller's thread's
        with torch.no_grad():
            work(pending)
        return
    workers = min(_threads.count(), gather.workers, len(items))
    _warp.run([lambda: work(pending)] * workers)


def _transposed(filter: torch.Tensor, opposite: torch.Tensor, groups: int) -> torch.Tensor:
    """The filter of the adjoint: each tap at its opposite, its channels exchanged."""
    taps, width, out_channels = filter.shape
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
)
