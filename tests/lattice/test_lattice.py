"""Contents of a lattice, and their immutability."""

import dataclasses

import numpy as np
import pytest
import torch

from permutogeo import Lattice
from permutogeo.testing import reference

DOUBLE = torch.float64


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_attributes(cloud, dim, dtype):
    feature, batch = cloud(40, dim, dtype=dtype, graphs=3)
    lattice = Lattice.build(feature, batch)
    vertices = lattice.num_vertices
    assert (lattice.dim, lattice.num_points) == (dim, 40)
    assert isinstance(vertices, int) and 0 < vertices <= 40 * (dim + 1)
    assert lattice.key.shape == (vertices, dim) and lattice.key.dtype == torch.int32
    assert lattice.vertex.shape == (40, dim + 1) and lattice.vertex.dtype == torch.int32
    assert lattice.weight.shape == (40, dim + 1) and lattice.weight.dtype == dtype
    assert lattice.vertex_batch.shape == (vertices,) and lattice.vertex_batch.dtype == torch.int64
    assert lattice.device == torch.device("cpu")
    assert lattice.neighbors().shape == (vertices, 2 ** (dim + 1) - 1)
    assert lattice.neighbors().dtype == torch.int32


def test_repr():
    feature = torch.tensor([[0.0, 0.0], [0.3, 0.1], [5.0, 5.0]])
    batch = torch.tensor([1, 0, 1])
    assert repr(Lattice.build(feature)) == (
        "Lattice(dim=2, num_points=3, num_vertices=7, points_per_vertex=0.43, "
        "occupied_neighbors=38%)"
    )
    assert str(Lattice.build(feature, batch)) == (
        "Lattice(dim=2, num_points=3, num_vertices=9, points_per_vertex=0.33, "
        "occupied_neighbors=33%, num_graphs=2)"
    )
    assert repr(Lattice.build(feature, taps=[1, 2, 1])).endswith(", taps=(1.0, 2.0, 1.0))")
    assert repr(Lattice.build(feature, batch, taps=[1])) == (
        "Lattice(dim=2, num_points=3, num_vertices=9, points_per_vertex=0.33, "
        "occupied_neighbors=33%, num_graphs=2, taps=(1.0,))"
    )
    assert repr(Lattice.build(feature[:0])) == "Lattice(dim=2, num_points=0, num_vertices=0)"


@pytest.mark.parametrize("name", ["feature", "code", "incidence", "dim", "weight", "anything"])
def test_frozen(name):
    lattice = Lattice.build(torch.rand(5, 2))
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
        setattr(lattice, name, 1)


def test_caller_keeps_what_is_the_callers(cloud):
    feature, batch = cloud(graphs=2)
    x = torch.randn(60, 2, dtype=DOUBLE)
    before = feature.clone(), batch.clone(), x.clone()
    lattice = Lattice.build(feature, batch)
    values = lattice.splat(x)
    kept = values.clone()
    lattice.slice(lattice.convolve(lattice.blur(values), torch.ones(15, 2, 2, dtype=DOUBLE)))
    for old, new in zip((*before, kept), (feature, batch, x, values), strict=True):
        assert torch.equal(old, new)


def test_the_lattice_does_not_follow_a_caller_who_changes_feature(cloud):
    feature, _ = cloud(100, 2)
    lattice = Lattice.build(feature)
    lattice.coarsen()
    feature += 3.3
    with pytest.raises(ValueError, match=r"'feature' as it was .* changed in place"):
        lattice.coarsen()


def test_neighbors_are_cached(cloud):
    lattice = Lattice.build(cloud()[0])
    assert lattice.neighbors() is lattice.neighbors(1, 1, "full")
    assert lattice.neighbors(2) is lattice.neighbors(radius=2)
    assert lattice.neighbors(2) is not lattice.neighbors(1)
    assert lattice.neighbors(stencil="axis") is lattice.neighbors(stencil="axis")
    assert lattice.neighbors(dilation=2) is not lattice.neighbors()


def test_keys_are_lattice_points_in_order(cloud, full_key):
    feature, batch = cloud(200, graphs=4)
    lattice = Lattice.build(feature, batch)
    key = full_key(lattice)
    assert not key.sum(1).any()
    assert (key % 4 == key[:, :1] % 4).all()
    named = torch.cat([lattice.vertex_batch.unsqueeze(1), key], 1)
    assert len(named.unique(dim=0)) == lattice.num_vertices
    assert torch.equal(lattice.vertex_batch, lattice.vertex_batch.sort()[0])


def test_weights_recover_the_point(cloud, full_key):
    feature, _ = cloud(100, 5)
    lattice = Lattice.build(feature)
    elevated = torch.einsum(
        "nk,nkj->nj", lattice.weight, full_key(lattice)[lattice.vertex.long()].double()
    )
    np.testing.assert_allclose(elevated, reference.elevate(feature), atol=1e-10)
    assert (lattice.weight >= 0).all()
    torch.testing.assert_close(lattice.weight.sum(1), torch.ones(100, dtype=DOUBLE))


def test_vertex_batch_is_the_batch_of_its_points(cloud):
    feature, batch = cloud(graphs=3)
    lattice = Lattice.build(feature, batch)
    graph = lattice.vertex_batch[lattice.vertex.long()]
    assert torch.equal(graph, batch.unsqueeze(1).expand(-1, 4))
    assert not Lattice.build(feature).vertex_batch.any()


def test_graph_ids_may_leave_gaps(cloud):
    feature, _ = cloud(4)
    batch = torch.tensor([7, 10**15, 2**61, 7])
    lattice = Lattice.build(feature, batch)
    assert lattice.vertex_batch.unique().tolist() == [7, 10**15, 2**61]
    at = lattice.locate(feature, batch)
    assert torch.equal(at.vertex, lattice.vertex)
