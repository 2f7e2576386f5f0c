import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from permutogeo import Lattice
from permutogeo.nn import BilateralConv
from permutogeo.ops import stencils
from permutogeo.testing import reference

DOUBLE = torch.float64
NORMALIZATIONS = [None, "before", "after", "symmetric"]
each_normalization = pytest.mark.parametrize("normalize", NORMALIZATIONS)
OPTIONS = [
    {},
    {"radius": 2, "groups": 2},
    {"stencil": "axis", "dilation": 2, "bias": False},
    {"groups": 4},
    {"shared": True, "out_channels": 4},
    {"residual_to_gaussian": True},
    {"learn_scale": True},
    {"radius": 0},
]
each_option = pytest.mark.parametrize("options", OPTIONS, ids=lambda options: str(options))


def make(in_channels=4, out_channels=8, dim=3, init="kaiming", **options):
    return BilateralConv(in_channels, out_channels, dim, init=init, **options).double()


def test_str():
    assert str(BilateralConv(16, 32, dim=3)) == "BilateralConv(16, 32, dim=3, radius=1)"
    layer = BilateralConv(
        -1,
        8,
        dim=5,
        radius=2,
        groups=2,
        dilation=3,
        bias=False,
        stencil="axis",
        normalize="after",
        residual_to_gaussian=True,
        learn_scale=True,
    )
    assert str(layer) == (
        "BilateralConv(-1, 8, dim=5, radius=2, groups=2, dilation=3, bias=False, stencil='axis', "
        "residual_to_gaussian=True, normalize='after', learn_scale=True)"
    )
    assert str(BilateralConv(4, 4, 2, shared=True)) == (
        "BilateralConv(4, 4, dim=2, radius=1, shared=True)"
    )


# Against the oracle


def oracle(layer, x, src, dst=None, batch_src=None, batch_dst=None):
    """The layer in NumPy, normalization and all."""
    if dst is None:
        lattice, at = reference.ReferenceLattice(src, batch_src), None
    else:
        lattice, at = reference.ReferenceLattice.build_bipartite(src, dst, batch_src, batch_dst)
    offsets = reference.stencil(layer.dim, layer.radius)
    if layer.stencil == "axis":
        offsets = reference.axis_stencil(layer.dim, layer.radius)
    gaussian = stencils.gaussian(layer.dim, layer.radius, layer.stencil).numpy()
    x, bank = x.numpy(), layer.effective_filter().detach().numpy()

    def convolve(values, bank):
        if bank.ndim == 1:
            return lattice.convolve_shared(values, bank, offsets * layer.dilation)
        return lattice.convolve(values, bank, offsets * layer.dilation, layer.groups)

    response = convolve(lattice.splat(np.ones((len(x), 1))), gaussian)
    norm_src, norm_dst = (lattice.slice(response, where) + 1e-20 for where in (None, at))
    before, after = reference.NORMALIZATIONS[layer.normalize]
    out = lattice.slice(convolve(lattice.splat(x / norm_src**before), bank), at) / norm_dst**after
    return out if layer.bias is None else out + layer.bias.detach().numpy()


@each_option
@each_normalization
def test_matches_the_reference(cloud, options, normalize):
    data = cloud()
    layer = make(normalize=normalize, **options)
    np.testing.assert_allclose(
        layer(data.x, data.feature).detach(), oracle(layer, data.x, data.feature), atol=1e-10
    )


@each_normalization
@pytest.mark.parametrize("dim", [1, 2, 5])
def test_matches_the_reference_at_other_points(cloud, dim, normalize):
    data = cloud(dim=dim)
    layer = make(dim=dim, normalize=normalize)
    torch.nn.init.normal_(layer.bias)
    out = layer(data.x, (data.feature, data.other))
    assert out.shape == (20, 8)
    expected = oracle(layer, data.x, data.feature, data.other)
    reached = np.isfinite(expected).all(1)
    np.testing.assert_allclose(out.detach()[reached], expected[reached], atol=1e-10)


def test_matches_the_reference_in_batches(cloud):
    data = cloud(graphs=3)
    batch = torch.arange(20) % 3
    layer = make(normalize="symmetric")
    out = layer(data.x, (data.feature, data.other), (data.batch, batch))
    expected = oracle(layer, data.x, data.feature, data.other, data.batch, batch)
    np.testing.assert_allclose(out.detach(), expected, atol=1e-10)


# How the filter starts


# Routes


@each_option
def test_routes_agree(cloud, same_routes, options):
    data = cloud()
    for leaf in (data.x, data.feature, data.other):
        leaf.requires_grad_()
    layer = make(**options)
    same_routes(layer, data.x, data.feature, leaves=(data.x, data.feature))
    leaves = (data.x, data.feature, data.other)
    same_routes(layer, data.x, (data.feature, data.other), leaves=leaves)


@each_normalization
def test_normalized_routes_agree(cloud, same_routes, normalize):
    data = cloud(graphs=2)
    layer = make(normalize=normalize)
    same_routes(layer, data.x, data.feature.requires_grad_(), data.batch, leaves=(data.feature,))


# Batches


@each_normalization
@pytest.mark.parametrize("options", [{}, {"shared": True, "out_channels": 4}])
def test_three_graphs_are_three_calls(three_calls, options, normalize):
    together, clouds = three_calls()
    layer = make(dim=2, normalize=normalize, **options)
    singles = torch.cat([layer(each.x, each.feature) for each in clouds])
    out = layer(together.x, together.feature, together.batch)
    torch.testing.assert_close(out, singles, rtol=1e-12, atol=1e-12)


# Given lattices


@each_normalization
def test_a_given_lattice(cloud, normalize):
    data = cloud(graphs=2)
    layer = make(normalize=normalize)
    expected = layer(data.x, data.feature, data.batch)
    for feature in (data.feature, None):
        assert torch.equal(layer(data.x, feature, data.batch, data.lattice), expected)
    points = Lattice.build_bipartite(data.feature, data.other)
    expected = layer(data.x, (data.feature, data.other))
    assert torch.equal(layer(data.x, (data.feature, data.other), None, points), expected)
    assert torch.equal(layer(data.x, None, lattice=points), expected)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_a_kept_normalizer_has_no_part_in_gradients(cloud, mode):
    """The lattice keeps the normalizer only as a constant."""
    data = cloud()
    data.feature.requires_grad_()
    layer = make(normalize="after")
    expected = torch.autograd.grad(layer(data.x, data.feature).sum(), data.feature)
    lattice = Lattice.build(data.feature)
    with mode():
        first = layer(data.x, None, lattice=lattice)
        assert torch.equal(layer(data.x, None, lattice=lattice), first)
    out = layer(data.x, None, lattice=lattice)
    torch.testing.assert_close(torch.autograd.grad(out.sum(), data.feature), expected)


def test_the_normalizer_is_made_once(cloud, monkeypatch):
    data = cloud()
    calls = []
    original = Lattice.apply_filter
    monkeypatch.setattr(
        Lattice, "apply_filter", lambda *args, **kw: calls.append(1) or original(*args, **kw)
    )
    for normalize in ("after", "symmetric", "before"):
        make(normalize=normalize)(data.x, None, lattice=data.lattice)
    assert len(calls) == 4


# Gradients


@each_normalization
@pytest.mark.parametrize("pair", [False, True])
def test_gradients(normalize, pair):
    layer = make(2, 3, 2, normalize=normalize, learn_scale=True)
    names = [name for name, _ in layer.named_parameters()]
    assert sorted(names) == ["bias", "filter_weight", "log_scale"]
    x = torch.randn(8, 2, dtype=DOUBLE, requires_grad=True)
    src = (torch.rand(8, 2, dtype=DOUBLE) * 3).requires_grad_()
    dst = (torch.rand(5, 2, dtype=DOUBLE) * 3).requires_grad_()
    parameters = [torch.randn_like(p).requires_grad_() for p in layer.parameters()]

    def call(x, src, dst, *parameters):
        feature = (src, dst) if pair else src
        state = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(layer, state, (x, feature))

    leaves = (x, src, dst if pair else dst.detach(), *parameters)
    assert gradcheck(call, leaves, check_undefined_grad=False)


def test_gradients_of_a_shared_residual():
    layer = make(2, 2, 2, shared=True, residual_to_gaussian=True, normalize="after")
    x = torch.randn(8, 2, dtype=DOUBLE, requires_grad=True)
    feature = torch.rand(8, 2, dtype=DOUBLE) * 3

    def call(x, weight):
        return torch.func.functional_call(layer, {"filter_weight": weight}, (x, feature))

    assert gradcheck(call, (x, layer.filter_weight))


# Nothing, and far away


@each_normalization
def test_empty(normalize):
    layer = BilateralConv(3, 5, dim=2, normalize=normalize)
    assert layer(torch.empty(0, 3), torch.empty(0, 2)).shape == (0, 5)
    assert layer(torch.empty(0, 3), (torch.empty(0, 2), torch.rand(4, 2))).shape == (4, 5)
    assert layer(torch.rand(4, 3), (torch.rand(4, 2), torch.empty(0, 2))).shape == (0, 5)


@pytest.mark.parametrize("normalize", ["before", "after", "symmetric"])
@pytest.mark.parametrize("options", [{}, {"radius": 3}, {"radius": 3, "stencil": "axis"}])
def test_a_point_that_nothing_reaches_gives_zero(normalize, options):
    """Also where the filter has taps that its Gaussian has not."""
    x, src = torch.rand(30, 2), torch.rand(30, 2).requires_grad_()
    dst = torch.cat([torch.full((1, 2), 50.0), torch.linspace(0, 8, 40).view(-1, 1).repeat(1, 2)])
    layer = BilateralConv(2, 2, 2, init="kaiming", normalize=normalize, bias=False, **options)
    out = layer(x, (src, dst.requires_grad_()))
    assert not out[0].any() and out.isfinite().all()
    if normalize == "after":
        assert out.abs().max() < 1e3
    for grad in torch.autograd.grad(out.square().sum(), (src, dst, layer.filter_weight)):
        assert grad.isfinite().all()


def test_scale_moves_the_points(cloud):
    data = cloud()
    layer = make(learn_scale=True)
    assert torch.equal(layer.scale, torch.ones(3, dtype=DOUBLE))
    with torch.no_grad():
        layer.log_scale.copy_(torch.tensor([0.5, 1.0, 2.0]).log())
    out = layer(data.x, data.feature)
    assert out.ne(layer(data.x, data.feature * 1.1)).any()
    twin = make(init="gaussian")
    twin.load_state_dict({k: v for k, v in layer.state_dict().items() if k != "log_scale"})
    torch.testing.assert_close(twin(data.x, data.feature * layer.scale), out)


def test_training_lowers_the_loss(cloud):
    data = cloud(dtype=torch.float32)
    layer = BilateralConv(4, 2, 3, learn_scale=True, normalize="after")
    target = torch.sin(data.feature[:, :2])
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (layer(data.x, data.feature) - target).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    assert (layer.scale > 0).all() and layer.scale.ne(1).all()
