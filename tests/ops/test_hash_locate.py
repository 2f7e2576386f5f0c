import pytest
import torch

from permutogeo import Lattice, ops
from permutogeo.ops.hash_locate import vertex_box, vertex_density

DOUBLE = torch.float64


def tables(dim, sizes, dense):
    corners = torch.stack([torch.zeros(dim), torch.full((dim,), 3.0)])
    low, extent = vertex_box(corners, 0.5)
    first = torch.tensor([0, *sizes]).cumsum(0)[:-1].tolist()
    rows = [list(row) for row in zip(first, sizes, dense, strict=True)]
    return torch.tensor([low] * len(sizes)), torch.tensor([extent] * len(sizes)), torch.tensor(rows)


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
def test_weights_are_those_of_the_lattice(dim, dtype):
    feature = torch.rand(50, dim, dtype=dtype) * 3
    level = torch.arange(50) % 2
    size = int(vertex_box(torch.tensor([[0.0] * dim, [3.0] * dim]), 0.5)[1][0] ** dim * 99)
    weight, row = ops.hash_locate(feature, level, *tables(dim, [size, 7], [1, 0]), 0.5)
    lattice = Lattice.build(feature, level)
    assert torch.equal(weight, lattice.weight)
    dense = level == 0
    pairs = torch.stack([row[dense].flatten(), lattice.vertex[dense].flatten()], 1).unique(dim=0)
    assert len(pairs) == len(pairs[:, 0].unique()) == len(pairs[:, 1].unique())
    assert row[dense].max() < size
    assert size <= row[~dense].min() and row[~dense].max() < size + 7


def test_vertex_density():
    assert vertex_density(2, 0.5) == pytest.approx(
        Lattice.build(torch.rand(300000, 2) * 60).num_vertices / 3600, rel=0.1
    )


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
