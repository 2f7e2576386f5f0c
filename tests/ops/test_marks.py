"""Lattices of small boxes, numbered by marks, against hash tables."""

import pytest
import torch

from permutogeo import Lattice, ops
from permutogeo.ops import boxes, marks


@pytest.fixture
def marked(monkeypatch):
    """Returns how often corners were marked; all boxes of up to 25 bits are."""
    calls, insert = [], marks.insert
    monkeypatch.setattr(marks, "insert", lambda *given: calls.append(1) or insert(*given))
    monkeypatch.setattr(
        marks, "suit", lambda box, corners: box.shape[1] == 3 and box[-1, 1] * box[-1, 2] < 2**25
    )
    return calls


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def parts(lattice):
    coarse, at = lattice.coarsen()
    return lattice.weight, lattice.vertex, lattice.code, coarse.code, at.vertex


@pytest.mark.parametrize("graphs", [None, 3])
@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_is_the_lattice_of_a_hash_table(marked, monkeypatch, dtype, dim, graphs):
    feature = torch.rand(400, dim, dtype=dtype) * 4
    batch = graphs and torch.randint(0, graphs, (400,))
    found = parts(Lattice.build(feature, batch))
    assert marked
    monkeypatch.setattr(marks, "suit", lambda box, corners: False)
    expected = parts(Lattice.build(feature, batch))
    assert len(marked) == 1
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("count", [2, 3, 8])
def test_is_the_same_on_several_threads(marked, threads, count):
    feature = 3 * torch.randn(40_000, 3)
    threads(1)
    expected = parts(Lattice.build(feature))
    threads(count)
    assert all(
        torch.equal(a, b) for a, b in zip(parts(Lattice.build(feature)), expected, strict=True)
    )
    assert len(marked) == 2


def test_unique_codes():
    box = boxes.make([0, 0], [9, 9], 1)
    codes = torch.randint(0, 144, (500,))
    distinct, position = marks.unique(codes, box)
    expected, inverse = codes.unique(return_inverse=True)
    assert torch.equal(distinct[:, 0], expected) and torch.equal(position.long(), inverse)
    assert position.dtype == torch.int32


@pytest.mark.parametrize(
    ("extent", "corners", "right"),
    [
        (10**3, 1, True),  # few codes
        (10**6, 125_000, True),  # eight for each corner
        (10**6, 124_000, False),
        (10**7, 10**7, False),  # much memory
        (10**7, 10**8, True),  # less than that of the corners
        (2**33, 2**62, False),  # more than 32 bits
    ],
)
def test_boxes_that_suit(extent, corners, right):
    box = boxes.make([0], [extent - 1 - 2 * boxes.PADDING], 1)
    assert marks._count_codes(box) == extent
    assert marks.suit(box, corners) == right
    assert not marks.suit(torch.zeros(2, 4, dtype=torch.int64), corners)  # two words


def test_points_outside_of_a_given_box_are_not_marked(marked):
    """Whether they lie in it is not checked, so that marks could be out of range."""
    box = Lattice.build(torch.rand(50, 2)).box
    weight, *_ = ops.build_in_box(1e6 * torch.rand(50, 2), None, box, 0.5)
    assert len(marked) == 1 and weight.shape == (50, 3)
