"""The first layer of LatticeNet, against a loop over vertices."""

import pytest
import torch

from permutogeo import Lattice
from permutogeo.nn import PointNetSplat

DOUBLE = torch.float64


def loop(layer, x, lattice):
    rows = []
    for vertex in range(lattice.num_vertices):
        point, corner = (lattice.vertex == vertex).nonzero(as_tuple=True)
        if len(point) == 0:
            rows.append(torch.zeros(layer.out_channels, dtype=DOUBLE))
            continue
        weight = lattice.weight[point, corner].unsqueeze(1)
        near = lattice.feature[point]
        mean = (weight * near).sum(0) / weight.sum()
        mapped = layer.lin_value(x[point]) + layer.lin_position(near - mean)
        rows.append(mapped.amax(0))
    return torch.stack(rows)


def test_str():
    assert str(PointNetSplat(4, 6, dim=2)) == "PointNetSplat(4, 6, dim=2)"


@pytest.mark.parametrize("origin", [0.0, 1e4])
def test_matches_a_loop(origin):
    lattice = Lattice.build(torch.rand(40, 2, dtype=DOUBLE) * 3 + origin)
    layer, x = PointNetSplat(4, 6, dim=2).double(), torch.randn(40, 4, dtype=DOUBLE)
    torch.testing.assert_close(layer(x, lattice), loop(layer, x, lattice), rtol=1e-8, atol=1e-8)


def test_vertices_without_points_are_zero():
    feature, other = torch.rand(20, 2), torch.rand(20, 2) + 5
    lattice, _ = Lattice.build_bipartite(feature, other)
    out = PointNetSplat(3, 6, dim=2)(torch.rand(20, 3), lattice)
    empty = lattice.splat(torch.ones(20, 1)).squeeze(1) == 0
    assert empty.any() and not out[empty].any()


def test_gradients():
    feature = torch.rand(12, 2, dtype=DOUBLE, requires_grad=True)
    layer = PointNetSplat(3, 4, dim=2).double()
    x = torch.randn(12, 3, dtype=DOUBLE, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, f: layer(x, Lattice.build(f * 3)), (x, feature))


def test_empty_and_errors():
    layer = PointNetSplat(3, 4, dim=2)
    assert layer(torch.zeros(0, 3), Lattice.build(torch.zeros(0, 2))).shape == (0, 4)
    with pytest.raises(ValueError, match=r"PointNetSplat: Expected 'x' of shape \[5, 3\]"):
        layer(torch.rand(5, 2), Lattice.build(torch.rand(5, 2)))
