import numpy as np
import pytest
import torch

from permutogeo import get_workspace, set_workspace
from permutogeo.ops import convolve_edges, correlate_edges

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
    return torch.cat([*source, behind]), torch.cat([*target, behind]), begin


def bank(shape=(5, 3), dtype=torch.float64):
    """Arguments of ``convolve_edges`` for input and output channels."""
    values = torch.randn(SOURCES, shape[0], dtype=dtype)
    return values, torch.randn(TAPS, *shape, dtype=dtype), *edges(), TARGETS


def dense(source, target, begin):
    """The edges as a matrix for each tap, ``[taps, targets, sources]``."""
    matrix = np.zeros((TAPS, TARGETS, SOURCES))
    for tap in range(TAPS):
        for edge in range(int(begin[tap]), int(begin[tap + 1])):
            matrix[tap, target[edge], source[edge]] += 1
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
    matrix = dense(*rest[:3])
    expected = np.einsum("kts,si,kio->to", matrix, values, filter)
    check.close(convolve_edges(*args), expected)
    grad = torch.randn(TARGETS, shape[1], dtype=dtype)
    expected = np.einsum("kts,si,to->kio", matrix, values, grad)
    check.close(correlate_edges(values, grad, *rest[:3]), expected)


def test_adjoint(check):
    values, filter, source, target, begin, _ = bank()
    grad = torch.randn(TARGETS, 3, dtype=torch.float64)
    there, back = (source, target, begin, TARGETS), (target, source, begin, SOURCES)
    check.adjoint(
        lambda x: convolve_edges(x, filter, *there),
        values,
        lambda y: convolve_edges(y, filter.mT, *back),
        grad,
    )
    check.adjoint(
        lambda f: convolve_edges(values, f, *there),
        filter,
        lambda y: correlate_edges(values, y, *there[:3]),
        grad,
    )


def test_gradients(check):
    values, filter, *rest = bank((2, 2))
    grad = torch.randn(TARGETS, 2, dtype=torch.float64)
    check.gradients(lambda v, f: convolve_edges(v, f, *rest), values, filter)
    check.gradients(lambda v, g: correlate_edges(v, g, *rest[:3]), values, grad)


def test_opcheck(check):
    for args in (bank(), bank((0, 3)), bank((3, 0))):
        values, filter, *rest = args
        leaves = values.clone().requires_grad_(), filter.clone().requires_grad_()
        check.registered(torch.ops.permutogeo.convolve_edges.default, args, (*leaves, *rest))
        grad = torch.randn(TARGETS, filter.shape[2], dtype=torch.float64, requires_grad=True)
        arguments = (leaves[0], grad, *rest[:3])
        check.registered(torch.ops.permutogeo.correlate_edges.default, arguments)


def test_compile(check):
    values, filter, *rest = bank()
    check.compiles(lambda v, f: convolve_edges(v, f, *rest), values, filter)


def test_empty():
    none = torch.empty(0, dtype=torch.int64)
    begin = torch.zeros(TAPS + 1, dtype=torch.int64)
    values, filter = torch.empty(0, 4), torch.ones(TAPS, 4, 3)
    assert convolve_edges(values, filter, none, none, begin, 0).shape == (0, 3)
    assert not convolve_edges(values, filter, none, none, begin, 2).any()
    grad = correlate_edges(values, torch.empty(0, 3), none, none, begin)
    assert grad.shape == (TAPS, 4, 3) and not grad.any()


def test_layouts_and_inputs(check):
    values, filter, *rest = args = bank()
    # Indices are made by the library; values and filters are the caller's.
    check.layouts(lambda v, f: convolve_edges(v, f, *rest), values, filter)
    check.unchanged(convolve_edges, *args)
    grad = torch.randn(TARGETS, 3, dtype=torch.float64)
    check.unchanged(correlate_edges, values, grad, *rest[:3])


def test_working_memory_is_bounded(monkeypatch):
    """Whatever the number of edges, so many rows at a time."""
    count, channels = 50_000, 16
    vertex = torch.arange(count)
    values, filter = torch.rand(count, channels), torch.rand(1, channels, channels)
    gathered, original = [], torch.Tensor.index_select

    def watch(tensor, dim, index):
        gathered.append(index.numel() * channels * 4)
        return original(tensor, dim, index)

    monkeypatch.setattr(torch.Tensor, "index_select", watch)
    before = get_workspace()
    try:
        set_workspace(2**20)
        convolve_edges(values, filter, vertex, vertex, torch.tensor([0, count]), count)
        correlate_edges(values, values, vertex, vertex, torch.tensor([0, count]))
    finally:
        set_workspace(before)
    assert sum(gathered) == 3 * values.numel() * 4
    assert max(gathered) <= 2**20 / 2  # and as much for what is made of them
