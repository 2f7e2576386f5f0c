"""Splat, blur, convolve and slice against the oracle; taps, stencils and memory."""

import numpy as np
import pytest
import torch

import permutogeo as pg
from permutogeo import Lattice
from permutogeo.testing import reference

DOUBLE = torch.float64
FIVE_TAPS = (0.1, 0.6, 1.0, 0.6, 0.1)


@pytest.mark.parametrize("dim", [1, 2, 3, 5, 8])
def test_matches_the_reference(cloud, in_reference, dim):
    feature, batch = cloud(50, dim, graphs=2)
    x = torch.randn(50, 3, dtype=DOUBLE)
    lattice = Lattice.build(feature, batch)
    oracle = reference.ReferenceLattice(feature, batch)
    order = in_reference(lattice, oracle)
    assert lattice.num_vertices == oracle.num_vertices
    values = lattice.splat(x)
    np.testing.assert_allclose(values, oracle.splat(x)[order], atol=1e-12)
    blurred = oracle.blur(oracle.splat(x))
    np.testing.assert_allclose(lattice.blur(values), blurred[order], atol=1e-12)
    np.testing.assert_allclose(
        lattice.slice(lattice.blur(values)), oracle.slice(blurred), atol=1e-12
    )
    transposed = oracle.blur(oracle.splat(x), reverse=True)[order]
    np.testing.assert_allclose(lattice.blur(values, transpose=True), transposed, atol=1e-12)


@pytest.mark.parametrize(
    ("radius", "dilation", "stencil"),
    [
        (0, 1, "full"),
        (1, 1, "full"),
        (2, 1, "full"),
        (1, 3, "full"),
        (1, 1, "axis"),
        (3, 2, "axis"),
    ],
)
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_neighbors_stand_in_the_order_of_the_stencil(
    cloud, full_key, dim, radius, dilation, stencil
):
    feature, batch = cloud(80, dim, 3.0, graphs=2)
    lattice = Lattice.build(feature, batch)
    if stencil == "full":
        offset = pg.stencil(dim, radius)
    else:
        offset = torch.from_numpy(reference.axis_stencil(dim, radius))
    key, graph = full_key(lattice), lattice.vertex_batch
    place = {(g, *k): v for v, (g, k) in enumerate(zip(graph.tolist(), key.tolist(), strict=True))}
    wanted = key.unsqueeze(1) + dilation * offset
    expected = [
        [place.get((g, *k), -1) for k in row]
        for g, row in zip(graph.tolist(), wanted.tolist(), strict=True)
    ]
    assert lattice.neighbors(radius, dilation, stencil).tolist() == expected


@pytest.mark.parametrize("options", [{}, {"radius": 2}, {"dilation": 2}, {"stencil": "axis"}])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolve_matches_the_reference(cloud, in_reference, options, groups):
    feature, batch = cloud(60, 2, graphs=2)
    lattice = Lattice.build(feature, batch)
    oracle = reference.ReferenceLattice(feature, batch)
    order = in_reference(lattice, oracle)
    radius = options.get("radius", 1)
    axis = "stencil" in options
    offset = reference.axis_stencil(2, radius) if axis else reference.stencil(2, radius)
    offset = offset * options.get("dilation", 1)
    values = torch.randn(lattice.num_vertices, 4, dtype=DOUBLE)
    bank = torch.randn(len(offset), 4 // groups, 6, dtype=DOUBLE)
    theirs = np.empty(values.shape)
    theirs[order] = values
    expected = oracle.convolve(theirs, bank, offset, groups)[order]
    out = lattice.convolve(values, bank, groups=groups, **options)
    np.testing.assert_allclose(out, expected, atol=1e-12)
    shared = lattice.convolve(values, bank[:, 0, 0], shared=True, **options)
    expected = oracle.convolve_shared(theirs, bank[:, 0, 0], offset)[order]
    np.testing.assert_allclose(shared, expected, atol=1e-12)


def test_depthwise_is_grouped(cloud):
    lattice = Lattice.build(cloud()[0])
    values = torch.randn(lattice.num_vertices, 5, dtype=DOUBLE)
    bank = torch.randn(15, 1, 5, dtype=DOUBLE)
    parts = [lattice.convolve(values[:, c, None], bank[..., c, None]) for c in range(5)]
    torch.testing.assert_close(lattice.convolve(values, bank, groups=5), torch.cat(parts, 1))


# Taps, stencils, memory


@pytest.mark.parametrize("taps", [(0.5, 1, 0.5), FIVE_TAPS, (1.0,), (0.5, 0, 1, 1, 1, 0, 0.5)])
@pytest.mark.parametrize("dim", [1, 2])
def test_impulse_response_of_taps(full_key, position, dim, taps):
    side = torch.arange(-6, 6.1, 0.2, dtype=DOUBLE)
    feature = torch.cartesian_prod(*[side] * dim).reshape(-1, dim)
    lattice = Lattice.build(feature, taps=taps)
    centre = int((full_key(lattice) == 0).all(1).nonzero()[0, 0])
    impulse = torch.zeros(lattice.num_vertices, 1, dtype=DOUBLE)
    impulse[centre] = 1
    response = lattice.blur(impulse)[:, 0]
    assert response[centre].item() == pytest.approx(1)
    # The blur's share of the unit variance; splat and slice have the rest.
    middle = len(taps) // 2
    variance = sum(tap * (i - middle) ** 2 for i, tap in enumerate(taps)) / sum(taps)
    place = position(lattice)
    moment = torch.einsum("v,vi,vj->ij", response / response.sum(), place, place)
    expected = torch.eye(dim, dtype=DOUBLE) * variance / (1 / 6 + variance)
    torch.testing.assert_close(moment, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("taps", [(0.5, 1, 0.5), FIVE_TAPS])
def test_filter_has_unit_variance(taps):
    side = torch.arange(-7, 7.1, 0.125, dtype=DOUBLE)
    feature = torch.cartesian_prod(side, side)
    lattice = Lattice.build(feature, taps=taps)
    sources = (feature.abs().amax(1) < 0.8).nonzero()[:, 0]
    at = lattice.locate(feature[sources])
    # The response to each of many impulses, about the impulse.
    impulses = torch.eye(len(sources), dtype=DOUBLE)
    response = lattice.slice(lattice.blur(lattice.splat(impulses, at=at)))
    offset = feature.unsqueeze(1) - feature[sources].unsqueeze(0)
    moment = (response.unsqueeze(-1) * offset.square()).sum((0, 1)) / response.sum()
    torch.testing.assert_close(moment, torch.ones(2, dtype=DOUBLE), rtol=0.02, atol=0)


def test_taps_match_the_reference(cloud):
    feature, batch = cloud(50, 2, graphs=2)
    lattice = Lattice.build(feature, batch, taps=FIVE_TAPS)
    middle = np.arange(5) - 2
    variance = float((np.array(FIVE_TAPS) * middle**2).sum() / sum(FIVE_TAPS))
    x = torch.randn(50, 2, dtype=DOUBLE)
    expected = reference.gaussian_filter(x, feature, batch, None, variance, FIVE_TAPS)
    np.testing.assert_allclose(lattice.slice(lattice.blur(lattice.splat(x))), expected, atol=1e-12)
    at = lattice.locate(feature, batch)
    assert torch.equal(at.vertex, lattice.vertex)


@pytest.fixture
def workspace():
    before = pg.get_workspace()
    yield pg.set_workspace
    pg.set_workspace(before)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_workspace_changes_nothing_but_memory(workspace, groups):
    lattice = Lattice.build(torch.rand(3000, 3, dtype=DOUBLE) * 10)
    values = torch.randn(lattice.num_vertices, 4, dtype=DOUBLE, requires_grad=True)
    bank = torch.randn(15, 4 // groups, 8, dtype=DOUBLE, requires_grad=True)
    results = []
    for size in (64 * 2**20, 100_000, 1):
        workspace(size)
        assert pg.get_workspace() == size
        out = lattice.convolve(values, bank, groups=groups)
        results.append((out, *torch.autograd.grad(out.square().sum(), (values, bank))))
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("size", [0, -1, 1.5, "1"])
def test_bad_workspace(workspace, size):
    with pytest.raises(ValueError, match="positive number of bytes"):
        workspace(size)


def test_axis_stencil_in_twenty_dimensions():
    feature = torch.randn(100, 20, dtype=DOUBLE)
    lattice = Lattice.build(feature)
    assert lattice.neighbors(stencil="axis").shape == (lattice.num_vertices, 43)
    x = torch.randn(100, 2, dtype=DOUBLE)
    values = lattice.splat(x)
    out = lattice.convolve(values, torch.randn(43, 2, 3, dtype=DOUBLE), stencil="axis")
    assert lattice.slice(out).shape == (100, 3)
    np.testing.assert_allclose(
        lattice.slice(lattice.blur(values)),
        reference.gaussian_filter(x, feature, normalize=None),
        atol=1e-12,
    )
    with pytest.raises(ValueError, match=r"2097151 taps.*stencil='axis'"):
        lattice.neighbors()
