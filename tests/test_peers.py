"""The bugs of other implementations that PEERS.md lists, one test each."""

import numpy as np
import pytest
import torch

from permutogeo import Lattice
from permutogeo.functional import gaussian_filter
from permutogeo.runtime import bridge
from permutogeo.testing import reference

DOUBLE = torch.float64


def feature_of(keys):
    """Features that lie on the lattice points of given keys ``[n, d + 1]``."""
    keys = np.asarray(keys, dtype=np.float64)
    matrix = reference.elevate(np.eye(keys.shape[1] - 1)).T
    return torch.from_numpy(np.linalg.lstsq(matrix, keys.T, rcond=None)[0].T)


def full_key(lattice):
    key = lattice.key.long()
    return torch.cat([key, -key.sum(1, keepdim=True)], 1)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_neighbors_behind_a_gap_are_found(dim):
    """bilateralNN walks through occupied vertices and misses those behind an absent one."""
    axis = reference.axis_stencil(dim)[1]
    lattice = Lattice.build(feature_of([0 * axis, 6 * axis]) + 1e-3)
    key = full_key(lattice).tolist()
    present = {tuple(k): v for v, k in enumerate(key)}
    offsets = reference.axis_stencil(dim, 6)
    expected = [[present.get(tuple(np.add(k, o)), -1) for o in offsets.tolist()] for k in key]
    found = lattice.neighbors(6, stencil="axis")
    assert found.tolist() == expected
    # From the origin six steps along axis 0, with nothing at step three.
    origin = present[(0,) * (dim + 1)]
    column = {tuple(o): i for i, o in enumerate(offsets.tolist())}
    assert found[origin, column[tuple(3 * axis)]] == -1
    assert found[origin, column[tuple(6 * axis)]] == present[tuple(6 * axis)]


def test_filter_gradient_has_no_race():
    """bilateralNN's ``col2im`` adds to the weight gradient from many threads at once."""
    lattice = Lattice.build(torch.rand(30_000, 3, dtype=DOUBLE) * 15)
    values = torch.randn(lattice.num_vertices, 4, dtype=DOUBLE)
    grad = torch.randn(lattice.num_vertices, 3, dtype=DOUBLE)
    bank = torch.randn(15, 4, 3, dtype=DOUBLE, requires_grad=True)
    out = lattice.convolve(values, bank)
    runs = [torch.autograd.grad(out, bank, grad, retain_graph=True)[0] for _ in range(5)]
    padded = torch.cat([values, values.new_zeros(1, 4)])
    expected = torch.einsum("vkc,vo->kco", padded[lattice.neighbors().long()], grad)
    torch.testing.assert_close(runs[0], expected)
    assert all(torch.equal(run, runs[0]) for run in runs)


def test_hash_table_grows_and_never_gives_up():
    """LatticeNet hangs when its table is full and stops looking after 300 probes.

    Here every vertex is of its own, more than the first table holds.
    """
    count = 400_000
    feature = torch.arange(count, dtype=DOUBLE).unsqueeze(1) * 10 + 0.123
    lattice = Lattice.build(feature)
    assert lattice.num_vertices == 2 * count
    at = lattice.locate(feature)
    assert torch.equal(at.vertex, lattice.vertex)


def test_colliding_hashes_are_told_apart():
    """PAM merges keys that collide; LatticeNet loses those past 300 probes.

    Codes are chosen that all hash into the same thousandth of any table.
    """
    scale = reference.elevate(np.ones((1, 1)))[0, 0]  # key of feature 1 in one dimension
    ends = np.array([0.0, 2.0**27])
    probe = Lattice.build(torch.from_numpy(ends / scale)[:, None])
    low = int(probe.box[0, 0])
    code = np.arange(8, 2**26, dtype=np.uint64)
    golden = np.uint64(0x9E3779B97F4A7C15)
    colliding = code[(code * golden) >> np.uint64(64 - 14) == 0].astype(np.int64)
    assert len(colliding) > 3000
    # A grid coordinate c is the key 2 c - c: one cell of the grid is one step of the key.
    places = np.concatenate([ends, colliding + low + 0.25])
    feature = torch.from_numpy(places / scale)[:, None]
    lattice = Lattice.build(feature)
    assert torch.equal(lattice.box, probe.box)
    expected = np.unique(np.concatenate([np.floor(places), np.floor(places) + 1]))
    np.testing.assert_array_equal(np.sort(lattice.key[:, 0]), expected)
    key = lattice.key[:, 0][lattice.vertex.long()].double()
    np.testing.assert_allclose((key * lattice.weight).sum(1), places, rtol=0, atol=1e-6)
    assert torch.equal(lattice.locate(feature).vertex, lattice.vertex)


@pytest.mark.parametrize("dim", [2, 5, 8, 16])
def test_keys_do_not_merge(dim):
    """PAM merges keys that collide: every vertex has a key of its own, in any dimension."""
    feature = torch.randn(300, dim, dtype=DOUBLE) * 50
    batch = torch.randint(5, (300,))
    lattice = Lattice.build(feature, batch)
    oracle = reference.ReferenceLattice(feature, batch)
    ours = zip(lattice.vertex_batch.tolist(), map(tuple, full_key(lattice).tolist()), strict=True)
    assert set(ours) == set(oracle.index)
    assert lattice.num_vertices == oracle.num_vertices


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_isolated_vertices_weigh_as_much_as_others(dim):
    """Adams' CUDA blur and MONAI count an absent neighbor as the vertex itself, twice an axis."""
    feature = torch.cat([torch.zeros(1, dim), torch.full((1, dim), 50.0)]).double()
    lattice = Lattice.build(feature)
    oracle = reference.ReferenceLattice(feature)
    x = torch.tensor([[1.0], [2.0]], dtype=DOUBLE)
    ours = lattice.slice(lattice.blur(lattice.splat(x)))
    np.testing.assert_allclose(ours, oracle.slice(oracle.blur(oracle.splat(x))), rtol=1e-12)
    # On a full lattice the centre answers 1; with neighbors absent never more.
    assert 0 < ours[0] <= 1 + 1e-12
    if dim == 1:
        # Two vertices: 1 -> (1, 1/2) -> (5/4, 1), divided by 3/2.
        assert ours[0].item() == pytest.approx(5 / 6)


def test_the_self_term_of_a_normalized_filter_is_not_one():
    """WarpConvNet's demo removes it as ``filter(Q) - Q``: that subtracts too much.

    The true diagonal is what one point returns of its own unit, and less than 1.
    """
    feature = torch.rand(50, 2, dtype=DOUBLE) * 3
    for normalize in ("before", "after", "symmetric"):
        kernel = gaussian_filter(torch.eye(50, dtype=DOUBLE), feature, normalize=normalize)
        expected = reference.gaussian_filter(np.eye(50), feature, normalize=normalize)
        np.testing.assert_allclose(kernel, expected, atol=1e-12)
        assert (kernel.diagonal() < 0.5).all() and (kernel.diagonal() > 0).all()


def test_the_first_call_does_not_decide_the_device(monkeypatch):
    """simplex-gp compiles for the device of its first call and keeps to it.

    Kernels in use on the CPU are asked for again by another device, which loads its own.
    """
    gaussian_filter(torch.rand(5, 1), torch.rand(5, 2))
    gaussian_filter(torch.rand(5, 1).double(), torch.rand(5, 2).double())
    cpu = [key for key in bridge._loaded if key[-1] == torch.device("cpu")]
    assert cpu
    asked = []
    monkeypatch.setattr(bridge, "_load", lambda *key: asked.append(key) or "loaded")
    for factory, key, device in cpu:
        assert (
            bridge.load_kernels(factory, *key, device=device)
            is bridge._loaded[factory, key, device]
        )
        for other in ("cuda:0", "cuda:1"):
            assert bridge.load_kernels(factory, *key, device=torch.device(other)) == "loaded"
    assert len(asked) == 2 * len(cpu)
    assert {str(device) for *_, device in asked} == {"cuda:0", "cuda:1"}


@pytest.mark.parametrize("offset", [0.0, 1e4, -1e6])
@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_large_coordinates_keep_their_fraction(dim, offset):
    """Elevated in float32, a coordinate of 1e6 has hardly a fraction left."""
    feature = (torch.rand(200, dim) * 4 + offset).float()
    lattice = Lattice.build(feature)
    oracle = reference.ReferenceLattice(feature.double())
    key = full_key(lattice)[lattice.vertex.long()].double()
    elevated = torch.einsum("nk,nkj->nj", lattice.weight.double(), key - key[:, :1])
    exact = reference.elevate(feature.double()) - key[:, 0].numpy()
    np.testing.assert_allclose(elevated, exact, atol=2e-6 * (dim + 1))
    assert lattice.num_vertices == oracle.num_vertices
    x = torch.rand(200, 1)
    expected = reference.gaussian_filter(x, feature.double())
    np.testing.assert_allclose(gaussian_filter(x, feature), expected, atol=1e-5)
