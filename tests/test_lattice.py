import copy
import dataclasses
import pickle

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck
from torch_geometric.nn import FastRGCNConv, GraphConv, SimpleConv

import permutogeo as pg
from permutogeo import Lattice
from permutogeo.testing import reference

DOUBLE = torch.float64
FIVE_TAPS = (0.1, 0.6, 1.0, 0.6, 0.1)


def cloud(count=60, dim=3, scale=4.0, dtype=DOUBLE, graphs=None):
    """Random features, and a batch vector in random order."""
    feature = torch.randn(count, dim, dtype=dtype) * scale
    return feature, None if graphs is None else torch.randint(graphs, (count,))


def full_key(lattice):
    """All ``d + 1`` coordinates of the vertices."""
    key = lattice.key.long()
    return torch.cat([key, -key.sum(1, keepdim=True)], 1)


def in_reference(lattice, oracle):
    """For each vertex of ``lattice`` its index in the oracle's numbering."""
    names = zip(lattice.vertex_batch.tolist(), map(tuple, full_key(lattice).tolist()), strict=True)
    return np.array([oracle.index[name] for name in names], dtype=np.int64)


def position(lattice):
    """Features of the vertices: the inverse of the elevation."""
    variance = sum(t * (i - len(lattice.taps) // 2) ** 2 for i, t in enumerate(lattice.taps))
    matrix = reference.elevate(np.eye(lattice.dim), variance / sum(lattice.taps)).T
    return torch.from_numpy(np.linalg.lstsq(matrix, full_key(lattice).numpy().T, rcond=None)[0].T)


@pytest.fixture
def workspace():
    before = pg.get_workspace()
    yield pg.set_workspace
    pg.set_workspace(before)


# What it holds


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_attributes(dim, dtype):
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
    assert repr(Lattice.build(feature)) == "Lattice(dim=2, num_points=3, num_vertices=7)"
    assert str(Lattice.build(feature, batch)) == (
        "Lattice(dim=2, num_points=3, num_vertices=9, num_graphs=2)"
    )
    assert repr(Lattice.build(feature, taps=[1, 2, 1])).endswith(", taps=(1.0, 2.0, 1.0))")
    assert repr(Lattice.build(feature, batch, taps=[1])) == (
        "Lattice(dim=2, num_points=3, num_vertices=9, num_graphs=2, taps=(1.0,))"
    )
    assert repr(Lattice.build(feature[:0])) == "Lattice(dim=2, num_points=0, num_vertices=0)"


@pytest.mark.parametrize("name", ["feature", "code", "incidence", "dim", "weight", "anything"])
def test_frozen(name):
    lattice = Lattice.build(torch.rand(5, 2))
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
        setattr(lattice, name, 1)


def test_caller_keeps_what_is_the_callers():
    feature, batch = cloud(graphs=2)
    x = torch.randn(60, 2, dtype=DOUBLE)
    before = feature.clone(), batch.clone(), x.clone()
    lattice = Lattice.build(feature, batch)
    values = lattice.splat(x)
    kept = values.clone()
    lattice.slice(lattice.convolve(lattice.blur(values), torch.ones(15, 2, 2, dtype=DOUBLE)))
    for old, new in zip((*before, kept), (feature, batch, x, values), strict=True):
        assert torch.equal(old, new)


def test_the_lattice_does_not_follow_a_caller_who_changes_feature():
    feature, _ = cloud(100, 2)
    lattice = Lattice.build(feature)
    lattice.coarsen()
    feature += 3.3
    with pytest.raises(ValueError, match=r"'feature' as it was .* changed in place"):
        lattice.coarsen()


def test_neighbors_are_cached():
    lattice = Lattice.build(cloud()[0])
    assert lattice.neighbors() is lattice.neighbors(1, 1, "full")
    assert lattice.neighbors(2) is lattice.neighbors(radius=2)
    assert lattice.neighbors(2) is not lattice.neighbors(1)
    assert lattice.neighbors(stencil="axis") is lattice.neighbors(stencil="axis")
    assert lattice.neighbors(dilation=2) is not lattice.neighbors()


def test_keys_are_lattice_points_in_order():
    feature, batch = cloud(200, graphs=4)
    lattice = Lattice.build(feature, batch)
    key = full_key(lattice)
    assert not key.sum(1).any()
    assert (key % 4 == key[:, :1] % 4).all()
    named = torch.cat([lattice.vertex_batch.unsqueeze(1), key], 1)
    assert len(named.unique(dim=0)) == lattice.num_vertices
    assert torch.equal(lattice.vertex_batch, lattice.vertex_batch.sort()[0])


def test_weights_recover_the_point():
    feature, _ = cloud(100, 5)
    lattice = Lattice.build(feature)
    elevated = torch.einsum(
        "nk,nkj->nj", lattice.weight, full_key(lattice)[lattice.vertex.long()].double()
    )
    np.testing.assert_allclose(elevated, reference.elevate(feature), atol=1e-10)
    assert (lattice.weight >= 0).all()
    torch.testing.assert_close(lattice.weight.sum(1), torch.ones(100, dtype=DOUBLE))


def test_vertex_batch_is_the_batch_of_its_points():
    feature, batch = cloud(graphs=3)
    lattice = Lattice.build(feature, batch)
    graph = lattice.vertex_batch[lattice.vertex.long()]
    assert torch.equal(graph, batch.unsqueeze(1).expand(-1, 4))
    assert not Lattice.build(feature).vertex_batch.any()


def test_graph_ids_may_leave_gaps():
    feature, _ = cloud(4)
    batch = torch.tensor([7, 10**15, 2**61, 7])
    lattice = Lattice.build(feature, batch)
    assert lattice.vertex_batch.unique().tolist() == [7, 10**15, 2**61]
    at = lattice.locate(feature, batch)
    assert torch.equal(at.vertex, lattice.vertex)


# Against the oracle


@pytest.mark.parametrize("dim", [1, 2, 3, 5, 8])
def test_matches_the_reference(dim):
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
def test_neighbors_stand_in_the_order_of_the_stencil(dim, radius, dilation, stencil):
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
def test_convolve_matches_the_reference(options, groups):
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


def test_depthwise_is_grouped():
    lattice = Lattice.build(cloud()[0])
    values = torch.randn(lattice.num_vertices, 5, dtype=DOUBLE)
    bank = torch.randn(15, 1, 5, dtype=DOUBLE)
    parts = [lattice.convolve(values[:, c, None], bank[..., c, None]) for c in range(5)]
    torch.testing.assert_close(lattice.convolve(values, bank, groups=5), torch.cat(parts, 1))


# As graphs


@pytest.mark.parametrize("graphs", [None, 2])
def test_incidence_graph(graphs):
    feature, batch = cloud(graphs=graphs)
    lattice = Lattice.build(feature.requires_grad_(), batch)
    edge_index, edge_weight = lattice.incidence_graph()
    assert edge_index.shape == (2, 60 * 4) and edge_index.dtype == torch.int64
    assert edge_weight.shape == (60 * 4,) and edge_weight.requires_grad
    x = torch.randn(60, 3, dtype=DOUBLE)
    size = (60, lattice.num_vertices)
    scattered = x.new_zeros(size[1], 3).index_add(
        0, edge_index[1], edge_weight.unsqueeze(1) * x[edge_index[0]]
    )
    torch.testing.assert_close(lattice.splat(x), scattered)
    layer = SimpleConv(aggr="sum")
    torch.testing.assert_close(layer((x, None), edge_index, edge_weight, size), scattered)
    sliced = layer((scattered, None), edge_index.flip(0), edge_weight, size[::-1])
    torch.testing.assert_close(lattice.slice(scattered), sliced)


def test_incidence_graph_feeds_a_learned_layer():
    lattice = Lattice.build(torch.rand(30, 2) * 4)
    edge_index, edge_weight = lattice.incidence_graph()
    layer = GraphConv((3, 3), 7)
    x, values = torch.randn(30, 3), torch.zeros(lattice.num_vertices, 3)
    out = layer((x, values), edge_index, edge_weight)
    torch.testing.assert_close(out, layer.lin_rel(lattice.splat(x)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"dilation": 2}, {"radius": 2}, {"stencil": "axis"}])
def test_neighbor_graph_is_a_relational_convolution(options):
    lattice = Lattice.build(*cloud(graphs=2))
    edge_index, edge_type = lattice.neighbor_graph(**options)
    neighbors = lattice.neighbors(**options)
    taps = neighbors.shape[1]
    assert edge_index.shape == (2, int((neighbors >= 0).sum())) and edge_type.dtype == torch.int64
    assert torch.equal(neighbors[edge_index[1], edge_type].long(), edge_index[0])
    layer = FastRGCNConv(4, 5, taps, aggr="add", root_weight=False, bias=False).double()
    values = torch.randn(lattice.num_vertices, 4, dtype=DOUBLE)
    torch.testing.assert_close(
        lattice.convolve(values, layer.weight, **options), layer(values, edge_index, edge_type)
    )


# Other points


@pytest.mark.parametrize("graphs", [None, 3])
def test_build_bipartite_matches_the_reference(graphs):
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


def test_build_bipartite_over_the_same_points_changes_nothing():
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


def test_build_bipartite_with_one_side_empty():
    feature, _ = cloud()
    lattice, at = Lattice.build_bipartite(feature, feature[:0])
    assert at.num_points == 0 and torch.equal(lattice.key, Lattice.build(feature).key)
    lattice, at = Lattice.build_bipartite(feature[:0], feature)
    assert lattice.num_points == 0 and lattice.num_vertices > 0
    values = lattice.splat(torch.ones(0, 2, dtype=DOUBLE))
    assert not lattice.slice(values, at).any()


@pytest.mark.parametrize("graphs", [None, 3])
def test_locate_the_same_points(graphs):
    feature, batch = cloud(graphs=graphs)
    lattice = Lattice.build(feature, batch)
    at = lattice.locate(feature, batch)
    assert torch.equal(at.vertex, lattice.vertex)
    assert torch.equal(at.weight, lattice.weight)
    values = torch.randn(lattice.num_vertices, 2, dtype=DOUBLE)
    assert torch.equal(lattice.slice(values, at=at), lattice.slice(values))


@pytest.mark.parametrize("graphs", [None, 2])
def test_locate_matches_the_reference(graphs):
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


def test_locate_far_away_and_in_unknown_graphs():
    feature, batch = cloud(graphs=2)
    lattice = Lattice.build(feature, batch)
    assert (lattice.locate(feature + 1e5, batch).vertex == -1).all()
    assert (lattice.locate(feature - 1e5, batch).vertex == -1).all()
    assert (lattice.locate(feature, batch + 2).vertex == -1).all()
    assert (lattice.locate(feature, batch + 10**12).vertex == -1).all()


# Coarse and fine


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
@pytest.mark.parametrize("bipartite", [False, True])
def test_coarsen(dim, bipartite):
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


def test_coarsen_keeps_taps_and_gradients():
    feature, _ = cloud(20, 2)
    lattice = Lattice.build(feature.requires_grad_(), taps=FIVE_TAPS)
    coarse, at = lattice.coarsen()
    assert coarse.taps == FIVE_TAPS
    values = torch.randn(coarse.num_vertices, 1, dtype=DOUBLE)
    direct = torch.autograd.grad(coarse.slice(values).sum(), feature)
    nested = torch.autograd.grad(lattice.slice(coarse.slice(values, at)).sum(), feature)
    torch.testing.assert_close(nested, direct)


def test_coarsen_down_to_few_vertices():
    lattice = Lattice.build(cloud(500)[0])
    sizes = [lattice.num_vertices]
    for _ in range(8):
        lattice, _ = lattice.coarsen()
        sizes.append(lattice.num_vertices)
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] <= 15


def test_coarsen_empty():
    coarse, at = Lattice.build(torch.empty(0, 2)).coarsen()
    assert coarse.num_vertices == at.num_points == 0


# Elsewhere, and in other types


def test_to():
    feature, batch = cloud(graphs=2)
    for lattice in (
        Lattice.build(feature, batch, taps=FIVE_TAPS),
        Lattice.build_bipartite(feature, feature + 1, batch, batch)[0],
    ):
        moved = lattice.to("cpu")
        assert repr(moved) == repr(lattice)
        assert torch.equal(moved.key, lattice.key)
        assert torch.equal(moved.neighbors(), lattice.neighbors())
        x = torch.randn(60, 1, dtype=DOUBLE)
        assert torch.equal(moved.slice(moved.splat(x)), lattice.slice(lattice.splat(x)))
        assert torch.equal(moved.coarsen()[0].key, lattice.coarsen()[0].key)


def test_to_keeps_the_gradient():
    feature = torch.rand(10, 2, requires_grad=True)
    Lattice.build(feature).to("cpu").weight.square().sum().backward()
    assert feature.grad.abs().sum() > 0


def test_copies_and_pickles():
    lattice = Lattice.build(*cloud(graphs=2))
    lattice.neighbors()
    for other in (copy.deepcopy(lattice), pickle.loads(pickle.dumps(lattice))):
        assert repr(other) == repr(lattice)
        assert torch.equal(other.neighbors(), lattice.neighbors())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    feature = (torch.rand(200, 3) * 5).to(dtype)
    lattice = Lattice.build(feature)
    assert lattice.weight.dtype == torch.float32
    assert torch.equal(lattice.key, Lattice.build(feature.float()).key)
    x, bank = torch.rand(200, 4).to(dtype), torch.rand(15, 4, 2).to(dtype)
    values = lattice.splat(x)
    out = lattice.convolve(lattice.blur(values), bank)
    for result in (values, lattice.blur(values), out, lattice.slice(out)):
        assert result.dtype == dtype
    exact = lattice.convolve(lattice.blur(lattice.splat(x.float())), bank.float())
    torch.testing.assert_close(out.float(), exact, rtol=2e-2, atol=2e-2)


def test_types_mix():
    lattice = Lattice.build(torch.rand(50, 2) * 5)
    x = torch.rand(50, 2, dtype=DOUBLE)
    values = lattice.splat(x)
    assert values.dtype == DOUBLE
    assert lattice.convolve(values, torch.rand(7, 2, 3)).dtype == DOUBLE
    assert lattice.convolve(values.float(), torch.rand(7, 2, 3)).dtype == torch.float32
    assert lattice.convolve(values.half(), torch.rand(7, 2, 3)).dtype == torch.float32
    at = lattice.locate(torch.rand(9, 2, dtype=DOUBLE) * 5)
    assert lattice.slice(values.float(), at).dtype == torch.float32
    lattice, at = Lattice.build_bipartite(torch.rand(9, 2), torch.rand(5, 2, dtype=DOUBLE))
    assert lattice.slice(lattice.splat(torch.rand(9, 1)), at).dtype == torch.float32


def test_autocast():
    """What other layers leave in bfloat16 passes through; the lattice itself stays in float32."""
    feature = torch.rand(300, 3, requires_grad=True)
    bank = torch.randn(15, 8, 4, requires_grad=True)
    x = torch.rand(300, 8, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        lattice = Lattice.build(feature * 5)
        out = lattice.slice(lattice.convolve(lattice.blur(lattice.splat(x.bfloat16())), bank))
        assert lattice.weight.dtype == torch.float32
    out.float().square().mean().backward()
    exact = Lattice.build(feature * 5)
    expected = exact.slice(exact.convolve(exact.blur(exact.splat(x)), bank))
    assert torch.equal(exact.key, lattice.key)
    torch.testing.assert_close(out.float(), expected, rtol=5e-2, atol=0.5)
    for leaf in (feature, bank, x):
        assert leaf.grad is not None and leaf.grad.isfinite().all() and leaf.grad.any()


def test_autocast_leaves_double_alone():
    feature, _ = cloud()
    x, bank = torch.randn(60, 2, dtype=DOUBLE), torch.randn(15, 2, 2, dtype=DOUBLE)
    expected = everything(Lattice.build(feature), x, bank)
    with torch.autocast("cpu", torch.bfloat16):
        out = everything(Lattice.build(feature), x, bank)
    assert out.dtype == DOUBLE and torch.equal(out, expected)


def test_noncontiguous():
    feature, _ = cloud(60, 6)
    lattice = Lattice.build(feature[:, ::2])
    assert torch.equal(lattice.key, Lattice.build(feature[:, ::2].contiguous()).key)
    x = torch.randn(4, 60, dtype=DOUBLE).t()
    values = lattice.splat(x)
    assert torch.equal(values, lattice.splat(x.contiguous()))
    turned = values.t().contiguous().t()
    bank = torch.randn(3, 4, 15, dtype=DOUBLE).permute(2, 1, 0)
    assert torch.equal(lattice.blur(turned), lattice.blur(values))
    assert torch.equal(lattice.slice(turned), lattice.slice(values))
    torch.testing.assert_close(
        lattice.convolve(turned, bank), lattice.convolve(values, bank.contiguous())
    )


@pytest.mark.parametrize("graphs", [None, 0])
def test_empty(graphs):
    batch = None if graphs is None else torch.empty(0, dtype=torch.int64)
    lattice = Lattice.build(torch.empty(0, 3), batch)
    values = lattice.splat(torch.empty(0, 2))
    assert values.shape == (0, 2)
    assert lattice.key.shape == (0, 3) and lattice.vertex_batch.shape == (0,)
    assert lattice.neighbors().shape == (0, 15)
    assert lattice.blur(values).shape == (0, 2)
    assert lattice.convolve(values, torch.rand(15, 2, 5)).shape == (0, 5)
    assert lattice.convolve(values, torch.rand(15), shared=True).shape == (0, 2)
    assert lattice.slice(values).shape == (0, 2)
    assert lattice.incidence_graph()[0].shape == (2, 0)
    assert lattice.neighbor_graph()[0].shape == (2, 0)


def test_no_channels():
    lattice = Lattice.build(cloud()[0])
    values = lattice.blur(lattice.splat(torch.empty(60, 0)))
    assert lattice.slice(values).shape == (60, 0)
    assert torch.equal(
        lattice.convolve(values, torch.rand(15, 0, 4)), torch.zeros(lattice.num_vertices, 4)
    )


# Inference mode, as an evaluation between two epochs has it


def everything(lattice, x, bank):
    return lattice.slice(lattice.convolve(lattice.blur(lattice.splat(x)), bank))


def test_inference_mode():
    feature, x, bank = torch.rand(4000, 3) * 5, torch.rand(4000, 64), torch.rand(15, 64, 64)
    expected = everything(Lattice.build(feature), x, bank)
    with torch.inference_mode():
        out = everything(Lattice.build(feature), x, bank)
    assert torch.equal(out, expected)


def test_first_use_in_inference_mode_leaves_the_lattice_trainable():
    feature = torch.rand(50, 2) * 20
    x, bank = torch.rand(50, 1), torch.rand(7, 1, 1)
    lattice, fresh = Lattice.build(feature), Lattice.build(feature)
    with torch.inference_mode():
        everything(lattice, x, bank)
    x.requires_grad_(), bank.requires_grad_()
    expected = torch.autograd.grad(everything(fresh, x, bank).sum(), (x, bank))
    torch.testing.assert_close(
        torch.autograd.grad(everything(lattice, x, bank).sum(), (x, bank)), expected
    )


# Settings of torch that a program may have made


@pytest.fixture(params=["deterministic", "dtype", "device"])
def setting(request):
    if request.param == "deterministic":  # which also fills new memory with NaN
        torch.use_deterministic_algorithms(True)
        yield
        torch.use_deterministic_algorithms(False)
    elif request.param == "dtype":
        torch.set_default_dtype(DOUBLE)
        yield
        torch.set_default_dtype(torch.float32)
    else:
        with torch.device("meta"):
            yield


def all_of_it():
    generator = torch.Generator().manual_seed(3)
    options = {"generator": generator, "dtype": torch.float32, "device": "cpu"}
    feature = (torch.rand(3000, 3, **options) * 12).requires_grad_()
    x, bank = torch.rand(3000, 4, **options), torch.rand(15, 4, 4, **options).requires_grad_()
    lattice = Lattice.build(feature)
    values = lattice.convolve(lattice.blur(lattice.splat(x)), bank)
    values = lattice.convolve(values, bank[:, 0, 0], shared=True)
    coarse, at = lattice.coarsen()
    sliced = lattice.slice(values, lattice.locate(feature + 0.1))
    total = lattice.slice(values).square().sum() + sliced.sum() + coarse.splat(values, at).sum()
    return lattice.key, lattice.neighbors(), values, *torch.autograd.grad(total, (feature, bank))


@pytest.fixture
def expected():
    return all_of_it()


def test_settings_of_torch_change_nothing(expected, setting):
    for ours, plain in zip(all_of_it(), expected, strict=True):
        assert torch.equal(ours, plain)


# Taps, stencils, memory


@pytest.mark.parametrize("taps", [(0.5, 1, 0.5), FIVE_TAPS, (1.0,), (0.5, 0, 1, 1, 1, 0, 0.5)])
@pytest.mark.parametrize("dim", [1, 2])
def test_impulse_response_of_taps(dim, taps):
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


def test_taps_match_the_reference():
    feature, batch = cloud(50, 2, graphs=2)
    lattice = Lattice.build(feature, batch, taps=FIVE_TAPS)
    middle = np.arange(5) - 2
    variance = float((np.array(FIVE_TAPS) * middle**2).sum() / sum(FIVE_TAPS))
    x = torch.randn(50, 2, dtype=DOUBLE)
    expected = reference.gaussian_filter(x, feature, batch, None, variance, FIVE_TAPS)
    np.testing.assert_allclose(lattice.slice(lattice.blur(lattice.splat(x))), expected, atol=1e-12)
    at = lattice.locate(feature, batch)
    assert torch.equal(at.vertex, lattice.vertex)


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


# Gradients


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_gradients(dim):
    feature = (torch.rand(7, dim, dtype=DOUBLE) * 3).requires_grad_()
    other = (torch.rand(5, dim, dtype=DOUBLE) * 3).requires_grad_()
    x = torch.randn(7, 2, dtype=DOUBLE, requires_grad=True)
    bank = torch.randn(2 ** (dim + 1) - 1, 2, 3, dtype=DOUBLE, requires_grad=True)
    batch = torch.tensor([0, 1, 0, 1, 1, 0, 1])

    def own(feature, x, bank):
        lattice = Lattice.build(feature, batch)
        return lattice.slice(lattice.convolve(lattice.blur(lattice.splat(x)), bank))

    def bipartite(feature, other, x, bank):
        lattice, at = Lattice.build_bipartite(feature, other)
        return lattice.slice(lattice.convolve(lattice.blur(lattice.splat(x)), bank), at)

    def located(feature, other, x, bank):
        lattice = Lattice.build(feature)
        return lattice.slice(lattice.convolve(lattice.splat(x), bank), lattice.locate(other))

    assert gradcheck(own, (feature, x, bank))
    assert gradcheck(bipartite, (feature, other, x, bank))
    assert gradcheck(located, (feature, other, x, bank))


def test_gradient_of_taps_shared_and_depthwise():
    feature = (torch.rand(8, 2, dtype=DOUBLE) * 3).requires_grad_()
    x = torch.randn(8, 4, dtype=DOUBLE, requires_grad=True)
    shared = torch.randn(7, dtype=DOUBLE, requires_grad=True)
    deep = torch.randn(7, 1, 4, dtype=DOUBLE, requires_grad=True)
    grouped = torch.randn(7, 2, 6, dtype=DOUBLE, requires_grad=True)

    def through(feature, x, shared, deep, grouped):
        lattice = Lattice.build(feature, taps=FIVE_TAPS)
        values = lattice.convolve(lattice.blur(lattice.splat(x)), shared, shared=True)
        values = lattice.convolve(values, deep, groups=4, dilation=2)
        return lattice.slice(lattice.convolve(values, grouped, groups=2))

    assert gradcheck(through, (feature, x, shared, deep, grouped))


def test_second_gradients():
    feature = (torch.rand(5, 2, dtype=DOUBLE) * 3).requires_grad_()
    x = torch.randn(5, 1, dtype=DOUBLE, requires_grad=True)
    bank = torch.randn(7, 1, 2, dtype=DOUBLE, requires_grad=True)

    def through(feature, x, bank):
        lattice = Lattice.build(feature)
        return lattice.slice(lattice.convolve(lattice.splat(x), bank))

    assert torch.autograd.gradgradcheck(through, (feature, x, bank))


@pytest.mark.parametrize("size", [0, -1, 1.5, "1"])
def test_bad_workspace(workspace, size):
    with pytest.raises(ValueError, match="positive number of bytes"):
        workspace(size)
