"""Allocation, fills and copies on the thread pool, and the workspace limit."""

import pytest
import torch

import permutogeo as pg
from permutogeo.runtime import memory, pages

CPU = torch.device("cpu")
SIZES = [(0,), (3, 0), (7,), (1000, 3), (3, 1 << 20)]


@pytest.fixture(autouse=True)
def _restore():
    before = memory.get_workspace()
    yield
    memory.set_workspace(before)


@pytest.mark.parametrize("shape", SIZES)
def test_empty(shape):
    out = memory.empty(*shape, dtype=torch.float32, device=CPU)
    assert out.shape == shape and out.is_contiguous()
    out.zero_()


def test_trim_returns_kept_pages():
    memory.empty(1 << 24, dtype=torch.float32, device=CPU).fill_(1.0)
    assert not pages.AVAILABLE or pages.kept_bytes() > 0
    memory.trim()
    assert pages.kept_bytes() == 0


@pytest.mark.parametrize("value", [0, -1])
@pytest.mark.parametrize("shape", SIZES)
def test_full(shape, value):
    out = memory.full(*shape, value=value, dtype=torch.int32, device=CPU)
    assert torch.equal(out, torch.full(shape, value, dtype=torch.int32))


@pytest.mark.parametrize("shape", SIZES)
def test_copy(shape):
    source = torch.rand(shape, requires_grad=True)
    target = torch.zeros(shape)
    memory.copy(target, source)
    assert torch.equal(target, source)
    turned = torch.rand(*shape, 2).movedim(-1, 0)[1]
    memory.copy(target, turned)
    assert torch.equal(target, turned)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_apply(requires_grad):
    a, b = torch.rand(5, 3, requires_grad=requires_grad), torch.rand(5, 1)
    out = memory.apply(torch.mul, a, b)
    assert torch.equal(out, a * b) and out.requires_grad == requires_grad


def test_total_memory():
    assert memory.total_memory(CPU) > 2**28


def test_workspace():
    pg.set_workspace(1000)
    assert pg.get_workspace() == memory.get_workspace() == 1000


@pytest.mark.parametrize("size", [0, -1, 1.5, "1", None])
def test_workspace_errors(size):
    with pytest.raises(ValueError, match=r"^Expected a positive number of bytes \(got "):
        memory.set_workspace(size)
