import math

import pytest
import torch

from permutogeo import Lattice, ops
from permutogeo.ops.hash_locate import aligned_frame, dense_widths

DOUBLE = torch.float64


def tables(dim, sizes, dense, side=3.0):
    width = dense_widths(side, aligned_frame(dim, 0.5)[1])
    first = torch.tensor([0, *sizes]).cumsum(0)[:-1].tolist()
    rows = [list(row) for row in zip(first, sizes, dense, strict=True)]
    return torch.tensor([width] * len(sizes)), torch.tensor(rows)


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
def test_rows_of_a_dense_table_are_vertices(dim, dtype):
    """One row for each vertex of the lattice over a cube, wherever the cube is."""
    rotation, factor = aligned_frame(dim, 0.5)
    size = math.prod(dense_widths(3.0, factor))
    position = torch.rand(3000, dim, dtype=DOUBLE) * 3
    feature = (position @ rotation + torch.randn(dim, dtype=DOUBLE) * 5).to(dtype)
    level = torch.arange(3000) % 2
    weight, row = ops.hash_locate(feature, level, *tables(dim, [size, 7], [1, 0]), 0.5)
    lattice = Lattice.build(feature, level)
    assert torch.equal(weight, lattice.weight)
    dense = level == 0
    pairs = torch.stack([row[dense].flatten(), lattice.vertex[dense].flatten()], 1).unique(dim=0)
    assert len(pairs) == len(pairs[:, 0].unique()) == len(pairs[:, 1].unique())
    assert row[dense].min() >= 0 and row[dense].max() < size
    assert size <= row[~dense].min() and row[~dense].max() < size + 7


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_aligned_frame(dim):
    rotation, factor = aligned_frame(dim, 0.5)
    torch.testing.assert_close(rotation @ rotation.T, torch.eye(dim, dtype=DOUBLE))
    side = {1: 1000.0, 2: 40.0, 3: 14.0, 4: 8.0}[dim]
    count = Lattice.build(torch.rand(200_000, dim) * side).num_vertices
    assert 0.95 < count / (factor.prod() * side**dim) < 1 + 2.5 * dim / side


def test_gradgradcheck_and_opcheck():
    feature = (torch.rand(6, 2, dtype=DOUBLE) * 3).requires_grad_()
    rest = (torch.zeros(6, dtype=torch.int64), *tables(2, [64], [0]), 0.5)

    def call(feature):
        return ops.hash_locate(feature, *rest)[0]

    assert torch.autograd.gradcheck(call, (feature,))
    assert torch.autograd.gradgradcheck(call, (feature,))
    assert torch.autograd.gradcheck(call, (feature,), check_forward_ad=True)
    torch.library.opcheck(torch.ops.permutogeo.hash_locate.default, (feature, *rest))


def test_empty():
    none = torch.empty(0, dtype=torch.int64)
    weight, row = ops.hash_locate(torch.empty(0, 3), none, *tables(3, [8], [0]), 0.5)
    assert weight.shape == row.shape == (0, 4)


def test_bad_features():
    level, rest = torch.zeros(2, dtype=torch.int64), tables(2, [8], [0])
    for value in (torch.nan, torch.inf, 1e12):
        with pytest.raises(ValueError, match="row 1"):
            ops.hash_locate(torch.tensor([[0.0, 0.0], [value, 0.0]]), level, *rest, 0.5)
