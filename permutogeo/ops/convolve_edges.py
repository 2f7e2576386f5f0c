"""Learned convolution along typed edges, as between a lattice and a coarser one.

The type of an edge is its tap. Edges are sorted by tap, those of tap ``k`` from ``begin[k]`` to
``begin[k + 1]``; entries after the last bound are ignored. An edge adds its source times the matrix
of its tap to its target. Edges of one tap have distinct sources and targets, so that the order of
sums is fixed.

``convolve_edges`` and ``correlate_edges`` are derivatives of the trilinear form
``sum_e values_{source(e)} @ filter_{tap(e)} @ grad_{target(e)}``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch

from permutogeo.ops._library import define, ops
from permutogeo.runtime import memory

# Size of a chunk of gathered rows: it fits into a core's cache.
_CHUNK_BYTES = 4 * 2**20


def _chunks(begin: torch.Tensor, row_bytes: int) -> Iterator[tuple[int, slice]]:
    """Yield each tap with chunks of its edges that fit into the workspace."""
    size = max(1, min(_CHUNK_BYTES, memory.get_workspace()) // max(1, row_bytes))
    bounds = begin.tolist()
    for tap, (first, last) in enumerate(pairwise(bounds)):
        for start in range(first, last, size):
            yield tap, slice(start, min(start + size, last))


def _row_bytes(*rows: torch.Tensor) -> int:
    return sum(each.shape[-1] * each.element_size() for each in rows)


def _convolve_edges(values, filter, source, target, begin, num_targets):
    out = values.new_zeros(num_targets, filter.shape[2])
    values, filter = values.detach(), filter.detach().contiguous()
    for tap, edges in _chunks(begin, _row_bytes(values, out)):
        rows = values.index_select(0, source[edges])
        out.index_add_(0, target[edges], rows @ filter[tap])
    return out


def _correlate_edges(values, grad, source, target, begin):
    out = values.new_zeros(len(begin) - 1, values.shape[1], grad.shape[1])
    values, grad = values.detach(), grad.detach()
    for tap, edges in _chunks(begin, _row_bytes(values, grad)):
        rows = values.index_select(0, source[edges])
        out[tap].addmm_(rows.t(), grad.index_select(0, target[edges]))
    return out


def _save_convolve(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs[:-1])


def _save_correlate(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward_convolve(ctx: Any, grad: torch.Tensor) -> tuple:
    values, filter, source, target, begin = ctx.saved_tensors
    grad_values = grad_filter = None
    if ctx.needs_input_grad[0]:
        back = (target, source, begin, values.shape[0])
        grad_values = ops.convolve_edges(grad, filter.transpose(1, 2), *back)
    if ctx.needs_input_grad[1]:
        grad_filter = ops.correlate_edges(values, grad, source, target, begin)
    return grad_values, grad_filter, None, None, None, None


def _backward_correlate(ctx: Any, grad: torch.Tensor) -> tuple:
    values, other, source, target, begin = ctx.saved_tensors
    grad_values = grad_other = None
    if ctx.needs_input_grad[0]:
        back = (target, source, begin, values.shape[0])
        grad_values = ops.convolve_edges(other, grad.transpose(1, 2), *back)
    if ctx.needs_input_grad[1]:
        there = (source, target, begin, other.shape[0])
        grad_other = ops.convolve_edges(values, grad, *there)
    return grad_values, grad_other, None, None, None


convolve_edges = define(
    "convolve_edges(Tensor values, Tensor filter, Tensor source, Tensor target, Tensor begin,"
    " SymInt num_targets) -> Tensor",
    _convolve_edges,
    lambda values, filter, source, target, begin, num_targets: values.new_empty(
        num_targets, filter.shape[2]
    ),
    save=_save_convolve,
    backward=_backward_convolve,
    linear=[0, 1],
)

correlate_edges = define(
    "correlate_edges(Tensor values, Tensor grad, Tensor source, Tensor target, Tensor begin)"
    " -> Tensor",
    _correlate_edges,
    lambda values, grad, source, target, begin: values.new_empty(
        begin.shape[0] - 1, values.shape[1], grad.shape[1]
    ),
    save=_save_correlate,
    backward=_backward_correlate,
    linear=[0, 1],
)
