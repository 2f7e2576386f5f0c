"""The lattice of half the resolution."""

import copy
import pickle

import numpy as np
import pytest
import torch

from permutogeo import Lattice
from permutogeo.testing import reference

DOUBLE = torch.float64
FIVE_TAPS = (0.1, 0.6, 1.0, 0.6, 0.1)


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
@pytest.mark.parametrize("bipartite", [False, True])
def test_coarsen(cloud, dim, bipartite):
    feature, batch = cloud(60, dim, graphs=2)
    if bipartite:
        lattice, _ = Lattice.build_bipartite(feature[:40], feature[40:], batch[:40], batch[40:])
        feature, batch = feature[:40], batch[:40]
    else:
        lattice = Lattice.build(feature, batch)
    coarse, at = lattice.coarsen()
    half = Lattice.build(feature / 2, batch)
    assert at.num_points == lattice.num_vertices and at.num_vertices == coarse.num_vertices
    if not bipartite:
        assert torch.equal(coarse.key, half.key)
        assert torch.equal(coarse.vertex, half.vertex)
    assert (at.vertex >= 0).all()
    ones = torch.ones(coarse.num_vertices, 1, dtype=DOUBLE)
    torch.testing.assert_close(coarse.slice(ones, at), ones.new_ones(lattice.num_vertices, 1))
    values = torch.randn(coarse.num_vertices, 3, dtype=DOUBLE)
    torch.testing.assert_close(
        lattice.slice(coarse.slice(values, at)), coarse.slice(values), rtol=0, atol=1e-11
    )
    fine = torch.randn(lattice.num_vertices, 3, dtype=DOUBLE)
    inner = (coarse.splat(fine, at) * values).sum()
    torch.testing.assert_close(inner, (fine * coarse.slice(values, at)).sum())


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
def test_coarsen_points_on_faces(dim, dtype):
    """Ties between simplices are broken alike on both levels, so that no corner is missed."""
    side = torch.arange(-3, 4, dtype=DOUBLE)
    grid = torch.cartesian_prod(*[side] * (dim + 1)).reshape(-1, dim + 1).numpy()
    step = reference.axis_stencil(dim, 1)[1:2].repeat(dim + 1, 0)
    step = np.stack([np.roll(step[i], i) for i in range(dim + 1)])
    # All lattice points and edge centres of a region, back to features.
    keys = grid @ step / 2
    feature = np.linalg.lstsq(reference.elevate(np.eye(dim)).T, keys.T, rcond=None)[0].T
    for points in (feature, np.round(feature, 1), np.zeros((1, dim))):
        lattice = Lattice.build(torch.as_tensor(points, dtype=dtype))
        for _ in range(3):
            coarse, at = lattice.coarsen()
            assert (at.vertex >= 0).all()
            values = torch.randn(coarse.num_vertices, 1, dtype=dtype)
            nested = lattice.slice(coarse.slice(values, at))
            torch.testing.assert_close(nested, coarse.slice(values), rtol=0, atol=1e-4)
            lattice = coarse


def test_coarsen_keeps_taps_and_gradients(cloud):
    feature, _ = cloud(20, 2)
    lattice = Lattice.build(feature.requires_grad_(), taps=FIVE_TAPS)
    coarse, at = lattice.coarsen()
    assert coarse.taps == FIVE_TAPS
    values = torch.randn(coarse.num_vertices, 1, dtype=DOUBLE)
    direct = torch.autograd.grad(coarse.slice(values).sum(), feature)
    nested = torch.autograd.grad(lattice.slice(coarse.slice(values, at)).sum(), feature)
    torch.testing.assert_close(nested, direct)


def test_coarsen_down_to_few_vertices(cloud):
    lattice = Lattice.build(cloud(500)[0])
    sizes = [lattice.num_vertices]
    for _ in range(8):
        lattice, _ = lattice.coarsen()
        sizes.append(lattice.num_vertices)
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] <= 15


def test_mass_of_coarse_vertices(cloud):
    """The mass of a lattice whose mass is known is restricted; the points are not located."""
    feature, batch = cloud(graphs=2)
    lattice = Lattice.build(feature, batch)
    lattice.mass(DOUBLE)
    for _ in range(3):
        coarse, _ = lattice.coarsen()
        found = coarse.mass(DOUBLE)
        assert coarse.located is None and "points" not in coarse._cache
        ones = torch.ones(len(feature), 1, dtype=DOUBLE)
        torch.testing.assert_close(found, coarse.splat(ones), rtol=0, atol=1e-11)
        lattice = coarse


def test_coarsen_empty():
    coarse, at = Lattice.build(torch.empty(0, 2)).coarsen()
    assert coarse.num_vertices == at.num_points == 0


# Made once


def test_coarsen_is_made_once(cloud):
    feature, batch = cloud(graphs=2)
    lattice = Lattice.build(feature, batch)
    coarse, at = lattice.coarsen()
    assert lattice.coarsen()[0] is coarse and lattice.coarsen()[1] is at
    with torch.no_grad():
        assert lattice.coarsen()[0] is coarse
    assert coarse.coarsen()[0] is lattice.coarsen()[0].coarsen()[0]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_coarsen_keeps_no_gradient(cloud, mode):
    """Cached results hold no autograd graph and do not cut one."""
    feature, _ = cloud(20, 2)
    lattice = Lattice.build(feature.requires_grad_())
    with mode():
        kept, _ = lattice.coarsen()
        assert kept.weight.requires_grad == (mode is torch.enable_grad)
        assert (lattice.coarsen()[0] is kept) == (mode is not torch.enable_grad)
    for _ in range(2):
        coarse, _ = lattice.coarsen()
        assert coarse is not kept
        values = torch.ones(coarse.num_vertices, 1, dtype=DOUBLE)
        (grad,) = torch.autograd.grad(coarse.slice(values**2 * coarse.key[:, :1]).sum(), feature)
        assert grad.any()


def test_coarsen_of_features_that_learn_after_building(cloud):
    """The lattice was built without gradients; the coarse one has them."""
    feature, _ = cloud(20, 2)
    with torch.no_grad():
        lattice = Lattice.build(feature.requires_grad_())
    assert not lattice.weight.requires_grad
    assert lattice.coarsen()[0].weight.requires_grad


@pytest.mark.parametrize("changes", [0, 1, 3])
def test_copies_coarsen(cloud, changes):
    """The features of a copy have version counters of their own."""
    feature, _ = cloud(20, 2)
    for _ in range(changes):
        feature += 1
    lattice = Lattice.build(feature)
    expected, _ = lattice.coarsen()
    for twin in (copy.deepcopy(lattice), pickle.loads(pickle.dumps(lattice)), copy.copy(lattice)):
        assert torch.equal(twin.coarsen()[0].key, expected.key)
    twin = copy.deepcopy(lattice)
    feature += 1
    assert torch.equal(twin.coarsen()[0].key, expected.key)
    twin.feature.add_(1)
    with pytest.raises(ValueError, match="changed in place"):
        twin.coarsen()


def test_coarsen_compiles_in_one_graph(cloud):
    """With a lattice from outside, and from within."""
    feature, batch = cloud(graphs=2)
    lattice = Lattice.build(feature, batch)

    def through(feature, batch, lattice):
        inner = Lattice.build(feature, batch)
        parts = []
        for each in (inner, lattice):
            coarse, at = each.coarsen()
            parts.append(
                coarse.slice(coarse.splat(feature)) + each.slice(at.slice(coarse.key * 1.0))
            )
        return torch.cat(parts)

    torch._dynamo.reset()
    compiled = torch.compile(through, fullgraph=True, dynamic=True, backend="eager")
    expected = through(feature, batch, lattice)
    for each in (lattice, Lattice.build(feature, batch)):  # with a coarse one kept, and without
        torch.testing.assert_close(compiled(feature, batch, each), expected)
