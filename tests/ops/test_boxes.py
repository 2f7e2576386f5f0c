"""Codes: lattice points as integers, of one word or several."""

import pytest
import torch
from torch.testing import assert_close

from permutogeo import Lattice
from permutogeo.ops import boxes


def words(lattice):
    return lattice.code.shape[1]


def assert_ascending(code):
    rows = code.tolist()
    assert rows == sorted(rows)


@pytest.mark.parametrize(
    ("low", "high", "graphs", "expected"),
    [
        ([0], [0], 1, 1),
        ([-5, 3], [7, 3], 4, 1),
        ([-(2**40), 0], [2**40, 2**30], 1, 2),
        ([-(2**29)] * 5, [2**29] * 5, 2**20, 3),
        ([0, 0], [5, 5], 2**61, 2),
        ([0], [2**61], 2**61, 2),
    ],
)
def test_encode_and_decode(low, high, graphs, expected):
    box = boxes.make(low, high, graphs)
    assert box.shape == (len(low) + 1, 2 + expected)
    ends = torch.tensor([[a, b] for a, b in zip([*low, 0], [*high, graphs - 1], strict=True)])
    coordinate = torch.cartesian_prod(*ends).view(-1, len(low) + 1)
    code = boxes.encode(coordinate, box)
    assert len(torch.unique(code, dim=0)) == len(torch.unique(coordinate, dim=0))
    assert_close(boxes.decode(code, box), coordinate)
    assert boxes.contains(coordinate, box).all()
    outside = coordinate.clone()
    outside[:, 0] = high[0] + boxes.PADDING + 1
    assert not boxes.contains(outside, box).any()


def test_codes_ascend_with_the_graph_and_the_coordinates():
    box = boxes.make([-3, -(2**40), 5], [4, 2**40, 2**30], 3)
    ends = torch.tensor([[-3, 4, 0], [-(2**40), 0, 7], [5, 2**30, 6], [0, 1, 2]])
    coordinate = torch.cartesian_prod(*ends)
    order = sorted(coordinate.tolist(), key=lambda row: (row[-1], row[:-1]))
    assert_ascending(boxes.encode(torch.tensor(order), box))


def test_padding():
    box = boxes.make([-3, 2], [4, 9], 3)
    wider = boxes.pad(box, 10)
    assert_close(wider[:, 0], box[:, 0] - torch.tensor([10, 10, 0]))
    assert_close(wider[:, 1], box[:, 1] + torch.tensor([20, 20, 0]))


@pytest.mark.parametrize(
    ("dim", "distance", "expected"),
    [(5, 10.0, 1), (3, 1e7, 2), (5, 1e6, 2), (8, 1e6, 3), (16, 1e3, 3)],
)
def test_far_apart_clusters(case_of, check, dtype, dim, distance, expected):
    """The same lattice as the reference, however many words a code takes."""
    cluster = torch.randn(15, dim, dtype=dtype)
    far = cluster.clone()
    far[:, 0] += distance
    far[:, 1:] -= distance / 2
    batch = torch.randint(0, 3, (30,))
    found = case_of(torch.cat([cluster, far]), batch)
    lattice = found.lattice
    assert words(lattice) == expected
    assert_ascending(lattice.code)
    x = torch.randn(30, 3, dtype=dtype)
    values = lattice.blur(lattice.splat(x))
    expected = found.from_reference(found.reference.blur(found.reference.splat(x)))
    # So far out, the features themselves have a few digits less.
    check.close(values, expected, tolerance=2e-5 if dtype == torch.float32 else 1e-7)
    own = lattice.locate(lattice.feature, batch)
    assert torch.equal(own.vertex, lattice.vertex)


@pytest.mark.parametrize(("graphs", "expected"), [(2**20, 1), (2**40, 2), (2**61, 2)])
def test_many_graphs(case_of, graphs, expected):
    feature = 50 * torch.randn(40, 3)
    batch = torch.randint(0, graphs, (40,))
    batch[0] = graphs - 1
    found = case_of(feature, batch)
    assert words(found.lattice) == expected
    own = found.lattice.locate(feature, batch)
    assert torch.equal(own.vertex, found.lattice.vertex)
    assert (found.lattice.locate(feature, batch ^ 1).vertex[batch < 2**61 - 2] == -1).all()


def test_an_unsorted_batch_is_a_sorted_one():
    """Vertices are numbered by graph and position, whatever the order of the points."""
    feature, batch = torch.randn(60, 3), torch.randint(0, 4, (60,))
    order = batch.argsort(stable=True)
    lattice, ordered = Lattice.build(feature, batch), Lattice.build(feature[order], batch[order])
    assert torch.equal(lattice.code, ordered.code)
    assert torch.equal(lattice.vertex[order], ordered.vertex)
    assert torch.equal(lattice.weight[order], ordered.weight)


def test_graphs_share_no_vertex(dim):
    feature = torch.randn(20, dim)
    lattice = Lattice.build(feature.repeat(2, 1), torch.arange(2).repeat_interleave(20))
    one = Lattice.build(feature)
    count = one.num_vertices
    assert lattice.num_vertices == 2 * count
    assert_close(lattice.vertex, torch.cat([one.vertex, one.vertex + count]))
    assert_close(lattice.key, one.key.repeat(2, 1))
    assert_close(lattice.vertex_batch, torch.arange(2).repeat_interleave(count))
