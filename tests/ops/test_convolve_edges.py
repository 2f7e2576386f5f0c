import itertools

import numpy as np
import pytest
import torch

from permutogeo import get_workspace, set_workspace
from permutogeo.ops import convolve_edges, correlate_edges, sort_edges

SOURCES, TARGETS, TAPS = 9, 6, 4


def edges(seed=0):
    """Random edges by tap, no two of a tap with the same source or target, and three that are no
    edges."""
    generator = torch.Generator().manual_seed(seed)
    counts = [3, 0, 6, 1]
    source = [torch.randperm(SOURCES, generator=generator)[:n] for n in counts]
    target = [torch.randperm(TARGETS, generator=generator)[:n] for n in counts]
    behind = torch.zeros(3, dtype=torch.int64)
    begin = torch.tensor([0, *np.cumsum(counts)])
    both = torch.stack([torch.cat([*source, behind]), torch.cat([*target, behind])])
    return both.to(torch.int32), begin


def indices(seed=0):
    """The edges, the same reversed, and their taps."""
    both, begin = edges(seed)
    return both, begin, both.flip(0), begin, torch.arange(TAPS)


def bank(shape=(5, 3), dtype=torch.float64):
    """Arguments of ``convolve_edges`` for input and output channels."""
    values = torch.randn(SOURCES, shape[0], dtype=dtype)
    return values, torch.randn(TAPS, *shape, dtype=dtype), *indices(), TARGETS


def dense(both, begin, taps=TAPS, targets=TARGETS, sources=SOURCES):
    """The edges as a matrix for each tap, ``[taps, targets, sources]``."""
    matrix = np.zeros((taps, targets, sources))
    for segment, (first, last) in enumerate(itertools.pairwise(begin.tolist())):
        for edge in range(first, last):
            matrix[segment % taps, both[1, edge], both[0, edge]] += 1
    return matrix


@pytest.fixture(params=[None, 1], ids=["workspace", "tiny workspace"])
def workspace(request):
    before = get_workspace()
    set_workspace(request.param or before)
    yield
    set_workspace(before)


@pytest.mark.parametrize("shape", [(5, 3), (1, 1), (16, 32)])
def test_reference(check, dtype, shape, workspace):
    values, filter, *rest = args = bank(shape, dtype)
    matrix = dense(*rest[:2])
    expected = np.einsum("kts,si,kio->to", matrix, values, filter)
    check.close(convolve_edges(*args), expected)
    grad = torch.randn(TARGETS, shape[1], dtype=dtype)
    expected = np.einsum("kts,si,to->kio", matrix, values, grad)
    check.close(correlate_edges(values, grad, *rest[:5]), expected)


def test_adjoint(check):
    values, filter, both, begin, back, _, taps, _ = bank()
    grad = torch.randn(TARGETS, 3, dtype=torch.float64)
    there = (both, begin, back, begin, taps, TARGETS)
    back = (back, begin, both, begin, taps, SOURCES)
    check.adjoint(
        lambda x: convolve_edges(x, filter, *there),
        values,
        lambda y: convolve_edges(y, filter.mT, *back),
        grad,
    )
    check.adjoint(
        lambda f: convolve_edges(values, f, *there),
        filter,
        lambda y: correlate_edges(values, y, *there[:5]),
        grad,
    )


def test_gradients(check):
    values, filter, *rest = bank((2, 2))
    grad = torch.randn(TARGETS, 2, dtype=torch.float64)
    check.gradients(lambda v, f: convolve_edges(v, f, *rest), values, filter)
    check.gradients(lambda v, g: correlate_edges(v, g, *rest[:5]), values, grad)


def test_opcheck(check):
    for args in (bank(), bank((0, 3)), bank((3, 0))):
        values, filter, *rest = args
        leaves = values.clone().requires_grad_(), filter.clone().requires_grad_()
        check.registered(torch.ops.permutogeo.convolve_edges.default, args, (*leaves, *rest))
        grad = torch.randn(TARGETS, filter.shape[2], dtype=torch.float64, requires_grad=True)
        arguments = (leaves[0], grad, *rest[:5])
        check.registered(torch.ops.permutogeo.correlate_edges.default, arguments)


def test_compile(check):
    values, filter, *rest = bank()
    check.compiles(lambda v, f: convolve_edges(v, f, *rest), values, filter)


def test_empty():
    none = torch.empty(2, 0, dtype=torch.int32)
    begin = torch.zeros(TAPS + 1, dtype=torch.int64)
    rest = (none, begin, none, begin, torch.arange(TAPS))
    values, filter = torch.empty(0, 4), torch.ones(TAPS, 4, 3)
    assert convolve_edges(values, filter, *rest, 0).shape == (0, 3)
    assert not convolve_edges(values, filter, *rest, 2).any()
    grad = correlate_edges(values, torch.empty(0, 3), *rest)
    assert grad.shape == (TAPS, 4, 3) and not grad.any()


def test_layouts_and_inputs(check):
    values, filter, *rest = args = bank()
    # Indices are made by the library; values and filters are the caller's.
    check.layouts(lambda v, f: convolve_edges(v, f, *rest), values, filter)
    check.unchanged(convolve_edges, *args)
    grad = torch.randn(TARGETS, 3, dtype=torch.float64)
    check.unchanged(correlate_edges, values, grad, *rest[:5])


def test_working_memory_is_bounded(monkeypatch):
    """Whatever the number of edges, so many rows at a time."""
    count, channels = 50_000, 16
    vertex = torch.arange(count, dtype=torch.int32)
    values, filter = torch.rand(count, channels), torch.rand(1, channels, channels)
    gathered, original = [], torch.index_select

    def watch(tensor, dim, index, out):
        gathered.append(index.numel() * channels * 4)
        return original(tensor, dim, index, out=out)

    monkeypatch.setattr(torch, "index_select", watch)
    both, begin = torch.stack([vertex, vertex]), torch.tensor([0, count])
    rest = (both, begin, both, begin, torch.arange(1))
    before = get_workspace()
    try:
        set_workspace(2**20)
        convolve_edges(values, filter, *rest, count)
        correlate_edges(values, values, *rest)
    finally:
        set_workspace(before)
    assert sum(gathered) == 3 * values.numel() * 4
    assert max(gathered) <= 2**20 / 2  # and as much for what is made of them


def table_of(rows, taps, sources, generator):
    """A table of sources whose columns hold each source at most once."""
    columns = [torch.randperm(max(rows, sources), generator=generator)[:rows] for _ in range(taps)]
    table = torch.stack(columns, 1)
    return torch.where(table < sources, table, -1).to(torch.int32)


@pytest.mark.parametrize("rows", [0, 1, 50, 2500, 9000])
def test_sorted_edges_of_a_table(rows):
    generator = torch.Generator().manual_seed(0)
    table = table_of(rows, 5, 700, generator)
    source_row = torch.randperm(700, generator=generator).to(torch.int32)
    target_row = torch.randperm(rows, generator=generator).to(torch.int32)
    both, begin = sort_edges(table, source_row, target_row)
    blocks = {0: 0, 1: 1, 50: 1, 2500: 2, 9000: 3}[rows]
    assert len(begin) == 5 * blocks + 1 and begin[-1] == both.shape[1]
    found = [
        (segment % 5, *edge)
        for segment, (first, last) in enumerate(itertools.pairwise(begin.tolist()))
        for edge in both[:, first:last].t().tolist()
    ]
    row, tap = (table >= 0).nonzero(as_tuple=True)
    sources = source_row[table[row, tap].long()]
    expected = zip(tap.tolist(), sources.tolist(), target_row[row].tolist(), strict=True)
    assert sorted(found) == sorted(expected)
    # Blocks share no target.
    block_of = [segment // 5 for segment, n in enumerate(begin.diff().tolist()) for _ in range(n)]
    assert len(set(zip(both[1].tolist(), block_of, strict=True))) == len(set(both[1].tolist()))


@pytest.mark.parametrize("count", [1, 2, 4])
def test_blocks_on_any_number_of_threads(check, count):
    """Bits do not depend on threads; the filter's gradient is summed block by block."""
    generator = torch.Generator().manual_seed(1)
    table = table_of(5000, 3, 4000, generator)
    back = torch.full((4000, 3), -1, dtype=torch.int32)
    row, tap = (table >= 0).nonzero(as_tuple=True)
    back[table[row, tap].long(), tap] = row.to(torch.int32)
    rows, sources = torch.arange(5000, dtype=torch.int32), torch.arange(4000, dtype=torch.int32)
    there, reverse = sort_edges(table, sources, rows), sort_edges(back, rows, sources)
    rest = (*there, *reverse, torch.arange(3))
    values = torch.randn(4000, 6, generator=generator, dtype=torch.float64, requires_grad=True)
    filter = torch.randn(3, 6, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    grad = torch.randn(5000, 5, generator=generator, dtype=torch.float64)

    def run():
        out = convolve_edges(values, filter, *rest, 5000)
        return out.detach(), *torch.autograd.grad(out, (values, filter), grad)

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = run()
        torch.set_num_threads(count)
        several = run()
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(one, several, strict=True))
    padded = torch.cat([values, values.new_zeros(1, 6)])
    expected = torch.einsum("tkc,kco->to", padded[table.long()], filter)
    check.close(one[0], expected.detach())
    gradients = torch.autograd.grad(expected, (values, filter), grad)
    for actual, other in zip(one[1:], gradients, strict=True):
        check.close(actual, other)
