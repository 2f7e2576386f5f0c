"""Insertion from several threads into one table, packed and listed."""

import sys

import pytest
import torch

from permutogeo import Lattice, ops
from permutogeo.ops.insert import InsertionTable, fits_packed
from permutogeo.ops.table import sort_unique

module = sys.modules["permutogeo.ops.insert"]
pytestmark = pytest.mark.usefixtures("hashed")


@pytest.fixture(autouse=True)
def _restore_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=[True, False], ids=["packed", "listed"])
def packed(request, monkeypatch):
    """The kind of the table; the boxes of these tests fit both."""
    if not request.param:
        monkeypatch.setattr(sys.modules["permutogeo.ops.build"], "fits_packed", lambda box: False)
    return request.param


def build(feature, threads, batch=None):
    torch.set_num_threads(threads)
    lattice = Lattice.build(feature, batch)
    return lattice.weight, lattice.vertex, lattice.code


def assert_same(a, b):
    assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_codes_are_those_of_the_atomic_path(packed, monkeypatch):
    feature = 4 * torch.randn(3000, 4)
    batch = torch.randint(0, 3, (3000,))
    found = build(feature, 1, batch)
    module = sys.modules["permutogeo.ops.build"]
    monkeypatch.setattr(module, "_insert_on_threads", module._insert_atomically)
    assert_same(found, build(feature, 1, batch))


@pytest.mark.parametrize("spread", [0.3, 30.0], ids=["few", "many"])
def test_threads_that_insert_the_same_codes_at_once(packed, monkeypatch, spread):
    """Every thread inserts the same points in the same order: all compete for each slot."""
    monkeypatch.setattr(module, "_FEWEST_POINTS", 1)
    feature = (spread * torch.randn(4000, 3)).repeat(8, 1)
    expected = build(feature, 1)
    assert torch.equal(expected[1][:4000], expected[1][-4000:])
    for _ in range(20):
        assert_same(build(feature, 8), expected)


def test_tables_grow_while_several_threads_insert(packed, monkeypatch):
    monkeypatch.setattr(module, "_FEWEST_POINTS", 1)
    feature = 20 * torch.randn(20_000, 3)
    expected = build(feature, 1)
    monkeypatch.setattr(module, "_MOST_FIRST_SLOTS", 32)
    monkeypatch.setattr(module, "_MOST_GROWTH", 2)
    monkeypatch.setattr(module, "_FEWEST_SLOTS", 512)
    for threads in (1, 3, 8):
        assert_same(build(feature, threads), expected)


def test_a_table_grows_once_to_what_uniform_points_need(monkeypatch):
    grown, grow = [], InsertionTable._grow

    def recorded(self) -> None:
        grow(self)
        grown.append(self.capacity)

    monkeypatch.setattr(InsertionTable, "_grow", recorded)
    lattice = Lattice.build(20 * torch.rand(10_000, 5))
    assert lattice.num_vertices > 4 * 16384 * 5 // 8  # four times the first slots would not do
    assert grown == [131072]


def test_the_largest_packed_code(monkeypatch):
    """Codes of all 32 bits, beside the content of free slots."""
    box = torch.tensor([[0, 2**16, 1], [0, 2**16, 2**16], [0, 1, 2**32]])
    assert fits_packed(box)
    assert not fits_packed(box + torch.tensor([0, 0, 1]))
    # Grid coordinates in the corners of the box.
    step = torch.linalg.inv(elevation())
    grid = torch.tensor([[0.6, 0.3], [2**16 - 2 + 0.6, 2**16 - 2 + 0.3]], dtype=torch.float64)
    feature = grid @ step.T
    found = ops.build_in_box(feature, None, box, 0.5)
    monkeypatch.setattr(sys.modules["permutogeo.ops.build"], "fits_packed", lambda box: False)
    assert_same(found, ops.build_in_box(feature, None, box, 0.5))
    assert found[2].max() == 2**32 - 1 and found[2].min() == 0
    assert torch.equal(found[2], sort_unique([found[2]]))


def elevation():
    from permutogeo.kernels.simplex import elevation_matrix

    return torch.tensor(elevation_matrix(2, 0.5))
