import pytest
import torch

from permutogeo import Incidence, Lattice, stencil
from permutogeo.nn import LatticePool, LatticeUnpool

DOUBLE = torch.float64
AGGRS = ["max", "mean", "sum", "learned"]
each_aggr = pytest.mark.parametrize("aggr", AGGRS)
each_dim = pytest.mark.parametrize("dim", [1, 2, 3, 5])


def test_str():
    assert str(LatticePool(8, 8, dim=3)) == "LatticePool(8, 8, dim=3, aggr='max')"
    layer = LatticePool(8, 16, dim=3, aggr="learned")
    assert str(layer) == "LatticePool(8, 16, dim=3, aggr='learned')"
    assert layer.filter_weight.shape == (15, 8, 16)


def vertices_around(lattice, coarse):
    """For each coarse vertex the fine one at each tap, by a dictionary of keys."""
    keys = torch.cat([lattice.vertex_batch[:, None], lattice.key.long()], 1)
    place = {tuple(key): i for i, key in enumerate(keys.tolist())}
    for graph, key in zip(coarse.vertex_batch.tolist(), coarse.key.long(), strict=True):
        fine = (2 * key + offset[:-1] for offset in stencil(lattice.dim))
        yield [place.get((graph, *each.tolist()), -1) for each in fine]


@each_dim
def test_matches_a_dictionary(cloud, dim):
    data = cloud(20, dim=dim, graphs=2)
    layers = {
        aggr: LatticePool(4, 6 if aggr == "learned" else 4, dim, aggr).double() for aggr in AGGRS
    }
    out = {aggr: layer(data.values, data.lattice)[0] for aggr, layer in layers.items()}
    coarse, _ = data.lattice.coarsen()
    padded = torch.cat([data.values, torch.zeros(1, 4, dtype=DOUBLE)])
    for row, around in enumerate(vertices_around(data.lattice, coarse)):
        near = torch.tensor([i for i in around if i >= 0])
        assert len(near)
        torch.testing.assert_close(out["max"][row], data.values[near].amax(0))
        # Half of each, and the whole of the vertex that lies there.
        half = torch.tensor([1.0 if k == 0 else 0.5 for k, i in enumerate(around) if i >= 0])
        summed = (half[:, None] * data.values[near]).sum(0)
        torch.testing.assert_close(out["sum"][row], summed)
        torch.testing.assert_close(out["mean"][row], summed / half.sum())
        bank = layers["learned"].filter_weight
        learned = torch.einsum("ki,kio->o", padded[around], bank)
        torch.testing.assert_close(out["learned"][row], learned)


@each_dim
def test_partition_of_unity(cloud, dim):
    """Sums keep the mass; means, largest values and slices keep a constant."""
    data = cloud(dim=dim, graphs=2)
    pool = LatticePool(4, 4, dim, "sum")
    torch.testing.assert_close(pool(data.values, data.lattice)[0].sum(0), data.values.sum(0))
    constant = torch.full_like(data.values, -2.5)
    for aggr in ("mean", "max"):
        out, coarse, at = LatticePool(4, 4, dim, aggr)(constant, data.lattice)
        assert out.shape == (coarse.num_vertices, 4)
        torch.testing.assert_close(out, torch.full_like(out, -2.5))
        back = LatticeUnpool(4, 4, dim)(out, data.lattice, coarse, at)
        torch.testing.assert_close(back, constant)


@each_dim
def test_unpooling_is_the_transpose(cloud, dim):
    data = cloud(dim=dim)
    pooled, coarse, at = LatticePool(4, 4, dim, "sum")(data.values, data.lattice)
    other = torch.randn(coarse.num_vertices, 4, dtype=DOUBLE)
    sliced = LatticeUnpool(4, 4, dim)(other, data.lattice, coarse, at)
    torch.testing.assert_close((pooled * other).sum(), (data.values * sliced).sum())
    pool = LatticePool(4, 3, dim, "learned", bias=False).double()
    unpool = LatticeUnpool(3, 4, dim, "learned", bias=False).double()
    with torch.no_grad():
        unpool.filter_weight.copy_(pool.filter_weight.transpose(1, 2))
    pooled, coarse, at = pool(data.values, data.lattice)
    other = torch.randn_like(pooled)
    spread = unpool(other, data.lattice, coarse, at)
    torch.testing.assert_close((pooled * other).sum(), (data.values * spread).sum())


@each_aggr
def test_routes_agree(cloud, same_routes, aggr):
    data = cloud(graphs=2)
    layer = LatticePool(4, 4, 3, aggr).double()
    same_routes(layer, data.values.requires_grad_(), data.lattice, leaves=(data.values,))


@each_aggr
def test_bipartite_lattices(cloud, same_routes, aggr):
    data = cloud()
    lattice, _ = Lattice.build_bipartite(data.feature, data.other)
    values = lattice.splat(data.x).requires_grad_()
    layer = LatticePool(4, 4, 3, aggr).double()
    same_routes(layer, values, lattice, leaves=(values,))


@each_aggr
def test_three_graphs_are_three_calls(three_calls, aggr):
    together, clouds = three_calls()
    layer = LatticePool(4, 4, 2, aggr).double()
    singles = [layer(each.lattice.splat(each.x), each.lattice)[0] for each in clouds]
    out, coarse, _ = layer(together.lattice.splat(together.x), together.lattice)
    assert len(coarse.vertex_batch.unique()) == 3
    torch.testing.assert_close(out, torch.cat(singles), rtol=1e-12, atol=1e-12)
    if aggr != "learned":
        assert torch.equal(out, torch.cat(singles))


@each_aggr
def test_gradients(cloud, aggr):
    data = cloud(6, dim=2, channels=2)
    layer = LatticePool(2, 2, 2, aggr).double()
    coarse, at = data.lattice.coarsen()

    def call(values, *parameters):
        state = dict(zip([n for n, _ in layer.named_parameters()], parameters, strict=True))
        arguments = (values, data.lattice, coarse, at)
        return torch.func.functional_call(layer, state, arguments)[0]

    assert torch.autograd.gradcheck(call, (data.values.requires_grad_(), *layer.parameters()))


@each_aggr
def test_empty_and_zero(aggr):
    lattice = Lattice.build(torch.empty(0, 3))
    layer = LatticePool(4, 4, 3, aggr, bias=False)
    assert layer(torch.empty(0, 4), lattice)[0].shape == (0, 4)
    lattice = Lattice.build(torch.rand(5, 3))
    zero = torch.zeros(lattice.num_vertices, 4, requires_grad=True)
    out = layer(zero, lattice)[0]
    assert not out.any()
    (grad,) = torch.autograd.grad(out.sum(), zero)
    assert grad.isfinite().all()


@each_aggr
def test_a_coarse_vertex_without_fine_ones_gets_zero(cloud, same_routes, aggr):
    """A coarse lattice of more points than the fine one."""
    data = cloud(dim=2)
    few, coarse = Lattice.build(data.feature[:5]), Lattice.build(data.feature / 2)
    below = few.coordinate.div(2, rounding_mode="floor")
    ends = torch.stack([below, few.coordinate - below], 1)
    ends[..., -1] = 0  # the graph
    same = (ends.unsqueeze(2) == coarse.coordinate).all(-1)
    vertex = torch.where(same.any(-1), same.int().argmax(-1), -1).to(torch.int32)
    at = Incidence(vertex, torch.full(vertex.shape, 0.5, dtype=DOUBLE), coarse.num_vertices)
    values = (torch.randn(few.num_vertices, 4, dtype=DOUBLE) - 10).requires_grad_()
    layer = LatticePool(4, 4, 2, aggr, bias=False).double()
    out = layer(values, few, coarse, at)[0]
    empty = torch.ones(coarse.num_vertices, dtype=torch.bool)
    empty[vertex.long()] = False
    assert empty.any() and not out[empty].any() and out[~empty].any(1).all()
    same_routes(layer, values, few, coarse, at, leaves=(values,))


LATTICE = Lattice.build(torch.tensor([[0.1, 0.2, 0.3]]))
COARSE, AT = LATTICE.coarsen()
VALUES = torch.rand(4, 4)
BAD = [
    ("short", (VALUES[:3], LATTICE), ValueError, r"'values' of shape \[4, 4\].*got \[3, 4\]"),
    ("lattice", (VALUES, 1), TypeError, r"'lattice' to be a Lattice \(got int\)"),
    ("at alone", (VALUES, LATTICE, None, AT), ValueError, r"both 'coarse' and 'at'.*no 'coarse'"),
    ("coarse alone", (VALUES, LATTICE, COARSE), ValueError, r"both 'coarse' and 'at'.*no 'at'"),
    (
        "at other",
        (VALUES, LATTICE, COARSE, COARSE.locate(torch.rand(9, 3))),
        ValueError,
        r"'at' of the 4 vertices of 'lattice' \(got one of 9\)",
    ),
    (
        "at of points",
        (VALUES, LATTICE, COARSE, COARSE.locate(torch.rand(4, 3))),
        ValueError,
        r"'coarse' and 'at' as lattice.coarsen\(\) returns them \(got .* of other points\)",
    ),
    (
        "coarse of others",
        (VALUES, LATTICE, *Lattice.build(torch.tensor([[9.1, 9.2, 9.3]])).coarsen()),
        ValueError,
        r"'coarse' and 'at' as lattice.coarsen\(\) returns them \(got .* of other points\)",
    ),
]


@pytest.mark.parametrize(
    ("arguments", "error", "message"), [pytest.param(*rest, id=name) for name, *rest in BAD]
)
def test_errors(arguments, error, message):
    with pytest.raises(error, match=f"^LatticePool: Expected {message}"):
        LatticePool(4, 4, dim=3)(*arguments)


def test_errors_of_options():
    with pytest.raises(ValueError, match=r"^LatticePool: Expected 'aggr' to be 'max'.*got 'min'"):
        LatticePool(4, 4, 3, "min")
    with pytest.raises(ValueError, match=r"^LatticePool: Expected 'out_channels' equal to the 4"):
        LatticePool(4, 8, 3, "mean")
    with pytest.raises(ValueError, match=r"^LatticePool: Expected 'feature' with data .*got meta"):
        LatticePool(4, 4, 3)(VALUES.to("meta"), LATTICE.to("meta"))
