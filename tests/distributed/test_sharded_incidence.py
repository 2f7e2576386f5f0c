import pytest
import torch

from permutogeo.distributed import ShardedLattice
from permutogeo.lattice import Lattice


def run_incidence(group, rank, size):
    feature = torch.rand(50, 2, dtype=torch.float64) * 4
    one = Lattice.build(feature)
    lattice = ShardedLattice.build(feature[rank::size], group=group)
    points, first = lattice.incidence, lattice.first_vertex
    assert points.sharded and not one.incidence.sharded
    number = torch.arange(first, first + lattice.num_vertices)
    read = points.spread(number)
    assert torch.equal(read[points.vertex.long()], one.vertex[rank::size].long())
    ones = points.collect(torch.ones(points.num_rows, 1))  # how many ranks touch each vertex
    assert ones.min() >= 1 and ones.max() <= size
    assert points.total(torch.tensor(1.0)) == size
    assert points.largest(torch.tensor(rank)) == size - 1

    # The points that touch the vertices of this rank, and where.
    pulled, vertex = points.pull(feature[rank::size]), points.pulled_vertex()
    row = (one.feature[:, None] == pulled).all(2).nonzero()[:, 0].sort().values
    inside = (one.vertex >= first) & (one.vertex < first + lattice.num_vertices)
    assert torch.equal(row, inside.any(1).nonzero()[:, 0])
    assert int((vertex >= 0).sum()) == int(inside.sum())
    point = dict(zip(map(tuple, feature.tolist()), one.vertex.tolist(), strict=True))
    for each, corners in zip(pulled.tolist(), vertex.tolist(), strict=True):
        for found, expected in zip(corners, point[tuple(each)], strict=True):
            assert (
                found == expected - first if found >= 0 else not 0 <= expected - first < len(number)
            )

    doubled = points.with_weight(2 * points.weight)
    x = torch.randn(points.num_points, 3, dtype=torch.float64)
    torch.testing.assert_close(doubled.splat(x), 2 * points.splat(x))
    head, tail = points.split([1, points.num_points - 1])
    torch.testing.assert_close(head.splat(x[:1]) + tail.splat(x[1:]), points.splat(x))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_incidence(on_ranks, size):
    on_ranks(run_incidence, size)
