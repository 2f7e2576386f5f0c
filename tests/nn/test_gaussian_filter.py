import numpy as np
import pytest
import torch

from permutogeo import Lattice
from permutogeo.functional import gaussian_filter
from permutogeo.nn import GaussianFilter
from permutogeo.testing import reference

DOUBLE = torch.float64
NORMALIZATIONS = [None, "before", "after", "symmetric"]
each_normalization = pytest.mark.parametrize("normalize", NORMALIZATIONS)


def test_str():
    assert str(GaussianFilter(3)) == "GaussianFilter(dim=3, sigma=1.0, normalize='after')"
    layer = GaussianFilter(2, [0.5, 2], learn_sigma=True, normalize=None)
    assert str(layer) == (
        "GaussianFilter(dim=2, sigma=[0.5, 2.0], learn_sigma=True, normalize=None)"
    )


@each_normalization
@pytest.mark.parametrize("dim", [1, 2, 5])
@pytest.mark.parametrize("graphs", [None, 3])
def test_is_the_twin_of_the_function(cloud, dim, graphs, normalize):
    data = cloud(dim=dim, graphs=graphs)
    sigma = torch.linspace(0.3, 1.7, dim, dtype=DOUBLE)
    layer = GaussianFilter(dim, sigma.tolist(), normalize=normalize)
    out = layer(data.x, data.feature, data.batch)
    expected = gaussian_filter(data.x, data.feature / sigma, data.batch, normalize)
    assert torch.equal(out, expected)
    lattice = Lattice.build(data.feature / sigma, data.batch)
    for _ in range(2):  # the second time with what the lattice has kept
        given = layer(data.x, data.feature, data.batch, lattice)
        torch.testing.assert_close(given, expected, rtol=1e-13, atol=1e-13)
    oracle = reference.gaussian_filter(data.x, data.feature / sigma, data.batch, normalize)
    np.testing.assert_allclose(out, oracle, atol=1e-10)


@each_normalization
def test_other_points(cloud, normalize):
    """All points in one cloud, the values of the output points zero."""
    data = cloud()
    layer = GaussianFilter(3, normalize=normalize)
    lattice, at = reference.ReferenceLattice.build_bipartite(data.feature, data.other)

    def kernel(x, where):
        return lattice.slice(lattice.blur(lattice.splat(x)), where)

    before, after = reference.NORMALIZATIONS[normalize]
    ones = np.ones((40, 1))
    x = data.x.numpy() / (kernel(ones, None) + 1e-20) ** before
    expected = kernel(x, at) / (kernel(ones, at) + 1e-20) ** after
    out = layer(data.x, (data.feature, data.other))
    np.testing.assert_allclose(out, expected, atol=1e-10)
    points = Lattice.build_bipartite(data.feature, data.other)
    given = layer(data.x, None, lattice=points)
    torch.testing.assert_close(given, out, rtol=1e-13, atol=1e-13)
    pair = (data.feature, data.other)
    assert torch.equal(gaussian_filter(data.x, pair, None, normalize), out)
    assert torch.equal(gaussian_filter(data.x, pair, None, normalize, points), given)


@each_normalization
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_routes_agree(cloud, same_routes, dim, normalize):
    data = cloud(dim=dim, graphs=2)
    layer = GaussianFilter(dim, 1.5, learn_sigma=True, normalize=normalize).double()
    leaves = (data.x.requires_grad_(), data.feature.requires_grad_())
    same_routes(layer, data.x, data.feature, data.batch, leaves=leaves)


def test_routes_agree_on_other_taps(cloud, same_routes):
    data = cloud(dim=2)
    lattice = Lattice.build(data.feature.requires_grad_(), taps=[0.2, 0.7, 1, 0.7, 0.2])
    same_routes(
        GaussianFilter(2, normalize=None), data.x, None, None, lattice, leaves=(data.feature,)
    )


@each_normalization
@pytest.mark.parametrize("count", [50, 3000])
def test_three_graphs_are_three_calls(three_calls, count, normalize):
    """Bit for bit."""
    together, clouds = three_calls(count=count)
    layer = GaussianFilter(2, normalize=normalize)
    singles = torch.cat([layer(each.x, each.feature) for each in clouds])
    assert torch.equal(layer(together.x, together.feature, together.batch), singles)


@each_normalization
def test_gradients(normalize):
    layer = GaussianFilter(2, [0.7, 1.3], learn_sigma=True, normalize=normalize).double()
    x = torch.randn(8, 2, dtype=DOUBLE, requires_grad=True)
    feature = (torch.rand(8, 2, dtype=DOUBLE) * 3).requires_grad_()

    def call(x, feature, log_sigma):
        return torch.func.functional_call(layer, {"bandwidth.log_sigma": log_sigma}, (x, feature))

    assert torch.autograd.gradcheck(call, (x, feature, layer.bandwidth.log_sigma))


def test_learns_its_bandwidth():
    """Gradient descent recovers the bandwidths of a filter from its output."""
    feature, x = torch.rand(400, 2) * 4, torch.rand(400, 3)
    target = gaussian_filter(x, feature / 0.5)
    layer = GaussianFilter(2, 1.0, learn_sigma=True)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    for _ in range(40):
        optimizer.zero_grad()
        (layer(x, feature) - target).square().mean().backward()
        optimizer.step()
    torch.testing.assert_close(layer.sigma, torch.tensor([0.5, 0.5]), rtol=0.15, atol=0)
    layer.reset_parameters()
    assert torch.equal(layer.sigma, torch.ones(2))


def test_a_fixed_filter_has_nothing_to_learn(cloud):
    data = cloud()
    layer = GaussianFilter(3)
    assert not list(layer.parameters()) and not layer.state_dict()
    constant = torch.full((40, 1), 3.0, dtype=DOUBLE)
    torch.testing.assert_close(layer(constant, data.feature), constant)


def test_empty():
    layer = GaussianFilter(2)
    assert layer(torch.empty(0, 3), torch.empty(0, 2)).shape == (0, 3)
    out = layer(torch.empty(0, 3), (torch.empty(0, 2), torch.rand(4, 2)))
    assert torch.equal(out, torch.zeros(4, 3))


X, FEATURE = torch.rand(10, 4), torch.rand(10, 3)
NINE = Lattice.build(FEATURE[:9])
BAD = [
    ("x list", ([1.0], FEATURE), TypeError, r"'x' to be a tensor \(got list\)"),
    ("x short", (X[:9], FEATURE), ValueError, r"'x' of shape \[10, C\], one row.*got \[9, 4\]"),
    ("feature", (X, FEATURE[:, :2]), ValueError, r"'feature' of shape \[N, 3\] .*got \[10, 2\]"),
    ("lattice", (X, FEATURE, None, NINE), ValueError, r"the 10 points of 'feature' .*of 9 points"),
    ("x device", (X.to("meta"), FEATURE), ValueError, r"'x' on .*cpu.*got meta"),
    ("nothing", (X, None), TypeError, r"'feature' to be a tensor \(got NoneType\)"),
]


@pytest.mark.parametrize(
    ("arguments", "error", "message"), [pytest.param(*rest, id=name) for name, *rest in BAD]
)
def test_errors(arguments, error, message):
    with pytest.raises(error, match=f"^GaussianFilter: Expected.*{message}"):
        GaussianFilter(3)(*arguments)


def test_errors_of_options():
    with pytest.raises(ValueError, match=r"^GaussianFilter: Expected 'normalize' .*got 'both'"):
        GaussianFilter(3, normalize="both")
    with pytest.raises(ValueError, match=r"^GaussianFilter: Expected 'dim' "):
        GaussianFilter(0)
    with pytest.raises(
        ValueError, match=r"^GaussianFilter: Expected no 'lattice' with learn_sigma"
    ):
        GaussianFilter(3, learn_sigma=True)(X, FEATURE, None, Lattice.build(FEATURE))


def test_a_lattice_of_features_without_sigma():
    """Also if it holds the very features of the call."""
    with pytest.raises(
        ValueError, match=r"^GaussianFilter: Expected 'lattice' built from .* row 0"
    ):
        GaussianFilter(3, sigma=2.0)(X, FEATURE, None, Lattice.build(FEATURE))
    layer = GaussianFilter(3)
    lattice = Lattice.build(FEATURE)
    torch.testing.assert_close(layer(X, FEATURE, None, lattice), layer(X, FEATURE))
