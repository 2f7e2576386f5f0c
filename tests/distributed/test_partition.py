import pytest
import torch

from permutogeo.distributed import ShardedLattice, partition


def cloud(count=600):
    """Half of the points in a thousandth of the volume."""
    return torch.cat([torch.rand(count // 2, 3), torch.rand(count // 2, 3) * 10]).double()


def run_partition(group, rank, size):
    feature, batch = cloud(), torch.randint(2, (600,))
    rows = torch.arange(600) % max(1, size - 1) == rank  # the last of several has none
    part = partition(feature[rows], batch[rows], group)
    assert torch.equal(part.rank, partition(feature, batch, num_parts=size).rank[rows])
    moved, graphs = part.move(feature[rows]), part.move(batch[rows])
    lattice = ShardedLattice.build(moved, graphs, group)
    first_corner = lattice.incidence.exchange.owner[lattice.vertex[:, 0].long()]
    assert (first_corner == rank).all(), "a point is where its first corner is owned"
    assert torch.equal(part.restore(moved), feature[rows])
    assert torch.equal(part.restore(graphs), batch[rows])
    leaf = feature[rows].clone().requires_grad_()
    part.move(leaf).square().sum().backward()
    torch.testing.assert_close(leaf.grad, 2 * leaf.detach())
    return len(moved) + lattice.num_vertices


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_partition(on_ranks, size):
    loads = on_ranks(run_partition, size)
    assert max(loads) <= sum(loads) / size + 100, loads


def test_parts_of_one_process():
    feature = cloud()
    part = partition(feature, num_parts=5)
    assert part.rank.shape == (600,) and set(part.rank.tolist()) == set(range(5))
    assert partition(feature[:0], num_parts=3).rank.shape == (0,)
    with pytest.raises(ValueError, match="select them by 'rank'"):
        part.move(feature)
    with pytest.raises(ValueError, match="'num_parts' of at least 1"):
        partition(feature, num_parts=0)
    with pytest.raises(ValueError, match="initialized process group"):
        partition(feature)
