"""Output points that are not the input points."""

import numpy as np
import pytest
import torch

from permutogeo import Lattice
from permutogeo.testing import reference

DOUBLE = torch.float64


@pytest.mark.parametrize("graphs", [None, 3])
def test_build_bipartite_matches_the_reference(cloud, in_reference, graphs):
    src, batch_src = cloud(40, graphs=graphs)
    dst, batch_dst = cloud(30, graphs=graphs)
    lattice, at = Lattice.build_bipartite(src, dst, batch_src, batch_dst)
    oracle, theirs = reference.ReferenceLattice.build_bipartite(src, dst, batch_src, batch_dst)
    order = in_reference(lattice, oracle)
    assert lattice.num_points == 40 and at.num_points == 30
    assert lattice.num_vertices == at.num_vertices == oracle.num_vertices
    every = torch.eye(lattice.num_vertices, dtype=DOUBLE)
    np.testing.assert_allclose(lattice.slice(every), oracle.slice_matrix()[:, order], atol=1e-12)
    expected = oracle.slice_matrix(theirs)[:, order]
    np.testing.assert_allclose(lattice.slice(every, at), expected, atol=1e-12)
    x = torch.randn(40, 2, dtype=DOUBLE)
    expected = oracle.slice(oracle.blur(oracle.splat(x)), theirs)
    np.testing.assert_allclose(lattice.slice(lattice.blur(lattice.splat(x)), at), expected, 1e-9)


def test_build_bipartite_over_the_same_points_changes_nothing(cloud):
    feature, batch = cloud(graphs=2)
    plain = Lattice.build(feature, batch)
    lattice, at = Lattice.build_bipartite(feature, feature, batch, batch)
    x = torch.randn(60, 2, dtype=DOUBLE)
    assert torch.equal(lattice.key, plain.key)
    assert torch.equal(lattice.vertex, plain.vertex) and torch.equal(at.vertex, plain.vertex)
    assert torch.equal(lattice.weight, plain.weight) and torch.equal(at.weight, plain.weight)
    values = lattice.blur(lattice.splat(x))
    assert torch.equal(values, plain.blur(plain.splat(x)))
    assert torch.equal(lattice.slice(values, at), plain.slice(values))


def test_build_bipartite_with_one_side_empty(cloud):
    feature, _ = cloud()
    lattice, at = Lattice.build_bipartite(feature, feature[:0])
    assert at.num_points == 0 and torch.equal(lattice.key, Lattice.build(feature).key)
    lattice, at = Lattice.build_bipartite(feature[:0], feature)
    assert lattice.num_points == 0 and lattice.num_vertices > 0
    values = lattice.splat(torch.ones(0, 2, dtype=DOUBLE))
    assert not lattice.slice(values, at).any()


@pytest.mark.parametrize("graphs", [None, 3])
def test_locate_the_same_points(cloud, graphs):
    feature, batch = cloud(graphs=graphs)
    lattice = Lattice.build(feature, batch)
    at = lattice.locate(feature, batch)
    assert torch.equal(at.vertex, lattice.vertex)
    assert torch.equal(at.weight, lattice.weight)
    values = torch.randn(lattice.num_vertices, 2, dtype=DOUBLE)
    assert torch.equal(lattice.slice(values, at=at), lattice.slice(values))


@pytest.mark.parametrize("graphs", [None, 2])
def test_locate_matches_the_reference(cloud, in_reference, graphs):
    feature, batch = cloud(30, 2, graphs=graphs)
    other, other_batch = cloud(50, 2, 5.0, graphs=graphs)
    lattice = Lattice.build(feature, batch)
    oracle = reference.ReferenceLattice(feature, batch)
    at = lattice.locate(other, other_batch)
    vertex, weight = oracle.locate(other, other_batch)
    order = in_reference(lattice, oracle)
    assert (vertex < 0).any() and (vertex >= 0).any()
    np.testing.assert_array_equal((at.vertex < 0).sum(1), (vertex < 0).sum(1))
    np.testing.assert_allclose(at.weight.sort(1)[0], np.sort(weight, 1), atol=1e-12)
    every = torch.eye(lattice.num_vertices, dtype=DOUBLE)
    expected = oracle.slice_matrix((vertex, weight))[:, order]
    np.testing.assert_allclose(lattice.slice(every, at), expected, atol=1e-12)


def test_locate_far_away_and_in_unknown_graphs(cloud):
    feature, batch = cloud(graphs=2)
    lattice = Lattice.build(feature, batch)
    assert (lattice.locate(feature + 1e5, batch).vertex == -1).all()
    assert (lattice.locate(feature - 1e5, batch).vertex == -1).all()
    assert (lattice.locate(feature, batch + 2).vertex == -1).all()
    assert (lattice.locate(feature, batch + 10**12).vertex == -1).all()


def test_located_points_need_a_batch_like_the_lattice():
    feature, batch = torch.rand(6, 2), torch.arange(6) // 3
    with pytest.raises(
        ValueError, match=r"^Expected 'batch' on a lattice of 2 graphs \(got None\)"
    ):
        Lattice.build(feature, batch).locate(feature)
    with pytest.raises(
        ValueError, match=r"^Expected no 'batch' on a lattice that was built without"
    ):
        Lattice.build(feature).locate(feature, batch)
    single = Lattice.build(feature, 0 * batch)
    assert torch.equal(single.locate(feature).vertex, single.vertex)
