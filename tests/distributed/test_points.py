import pytest
import torch

from permutogeo.distributed.points import agree_on_points, common_box, first_corners
from permutogeo.distributed.ranks import Ranks
from permutogeo.lattice import Lattice
from permutogeo.ops import boxes
from permutogeo.ops.stencils import tap_variance

TAPS = (0.5, 1.0, 0.5)


def run_box(group, rank, size):
    ranks = Ranks(group)
    feature, batch = torch.randn(30, 3) * 9, torch.arange(30)
    rows = torch.arange(30) % max(1, size - 1) == rank  # the last of several has none
    found, taps = agree_on_points(ranks, feature[rows], batch[rows], list(TAPS))
    assert taps == TAPS and torch.equal(found, feature[rows])
    box = common_box(ranks, found, batch[rows], tap_variance(TAPS))
    assert (ranks.all_gather(box) == box).all()
    assert boxes.contains(Lattice.build(feature, batch).coordinate, box).all()
    empty = common_box(ranks, feature[:0], None, tap_variance(TAPS))
    assert torch.equal(empty, Lattice.build(feature[:0]).box)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_common_box(on_ranks, size):
    on_ranks(run_box, size)


def test_first_corners():
    vertex = torch.tensor([[0, 2], [3, 0], [0, 1]], dtype=torch.int32)
    assert first_corners(vertex, 5).tolist() == [2, 0, 0, 1, 0]
