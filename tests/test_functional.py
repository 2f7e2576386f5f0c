import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from permutogeo import Lattice
from permutogeo.functional import (
    ApproximationReport,
    approximation_report,
    brute_force_filter,
    gaussian_filter,
)
from permutogeo.testing import reference

DOUBLE = torch.float64
NORMALIZATIONS = [None, "before", "after", "symmetric"]
each_normalization = pytest.mark.parametrize("normalize", NORMALIZATIONS)
each_filter = pytest.mark.parametrize("filter", [gaussian_filter, brute_force_filter])


def cloud(count=80, dim=3, scale=2.0, channels=2, graphs=None):
    x = torch.randn(count, channels, dtype=DOUBLE)
    feature = torch.randn(count, dim, dtype=DOUBLE) * scale
    return x, feature, None if graphs is None else torch.randint(graphs, (count,))


def smooth_image(size=64):
    """A color image without edges, and its bilateral features."""
    y, x = torch.meshgrid(*[torch.arange(size, dtype=DOUBLE)] * 2, indexing="ij")
    color = torch.stack([torch.sin(x / 20), torch.cos(y / 25), torch.sin((x + y) / 30)], -1)
    image = (0.5 + 0.4 * color).flatten(0, 1)
    return image, torch.cat([torch.stack([x, y], -1).flatten(0, 1) / 4, image / 0.2], 1)


# Against the oracle


@each_normalization
@pytest.mark.parametrize("dim", [1, 2, 3, 5])
@pytest.mark.parametrize("graphs", [None, 3])
def test_gaussian_filter_matches_the_reference(normalize, dim, graphs):
    x, feature, batch = cloud(dim=dim, graphs=graphs)
    expected = reference.gaussian_filter(x, feature, batch, normalize)
    np.testing.assert_allclose(gaussian_filter(x, feature, batch, normalize), expected, atol=1e-10)
    single = gaussian_filter(x.float(), feature.float(), batch, normalize)
    np.testing.assert_allclose(single, expected, rtol=1e-3, atol=1e-3)


@each_normalization
@pytest.mark.parametrize("graphs", [None, 3])
def test_brute_force_matches_the_reference(normalize, graphs):
    x, feature, batch = cloud(graphs=graphs)
    expected = reference.brute_force_filter(x, feature, batch, normalize)
    ours = brute_force_filter(x, feature, batch, normalize)
    np.testing.assert_allclose(ours, expected, rtol=1e-10)
    rows = torch.tensor([5, 3, 70])
    some = brute_force_filter(x, feature, batch, normalize, rows)
    np.testing.assert_allclose(some, expected[rows], rtol=1e-10)


def test_after_is_the_default():
    x, feature, _ = cloud()
    assert torch.equal(gaussian_filter(x, feature), gaussian_filter(x, feature, None, "after"))


def test_brute_force_in_parts_far_from_the_origin():
    x, feature, _ = cloud(3000, 2)
    feature = feature + 1e6
    rows = torch.arange(0, 3000, 100)
    expected = reference.brute_force_filter(x, feature)[rows]
    np.testing.assert_allclose(brute_force_filter(x, feature, rows=rows), expected, rtol=1e-9)


def test_gain_against_the_exact_sum():
    """DESIGN.md: 0.92, 0.88, 0.83 of the unit Gaussian's sum for d = 1, 2, 3."""
    for dim, step, gain in ((1, 0.02, 0.92), (2, 0.2, 0.88), (3, 0.5, 0.83)):
        side = torch.arange(-6, 6, step, dtype=DOUBLE)
        feature = torch.cartesian_prod(*[side] * dim).reshape(-1, dim)
        response = gaussian_filter(torch.ones(len(feature), 1, dtype=DOUBLE), feature, None, None)
        inside = response[feature.abs().amax(1) < 2]
        exact = (2 * np.pi) ** (dim / 2) / step**dim
        assert inside.mean().item() / exact == pytest.approx(gain, abs=0.006)


# Other points, and a lattice that is there already


@each_normalization
@pytest.mark.parametrize("graphs", [None, 2])
def test_other_points_match_the_reference(normalize, graphs):
    x, src, batch_src = cloud(graphs=graphs)
    _, dst, batch_dst = cloud(30, graphs=graphs)
    lattice, at = reference.ReferenceLattice.build_bipartite(src, dst, batch_src, batch_dst)

    def kernel(x, where):
        return lattice.slice(lattice.blur(lattice.splat(x)), where)

    ones = np.ones((80, 1))
    before, after = reference.NORMALIZATIONS[normalize]
    expected = kernel(x.numpy() / (kernel(ones, None) + 1e-20) ** before, at)
    expected = expected / (kernel(ones, at) + 1e-20) ** after
    batch = None if graphs is None else (batch_src, batch_dst)
    out = gaussian_filter(x, (src, dst), batch, normalize)
    np.testing.assert_allclose(out, expected, atol=1e-10)
    points = Lattice.build_bipartite(src, dst, batch_src, batch_dst)
    for feature in ((src, dst), None):
        given = gaussian_filter(x, feature, batch, normalize, points)
        torch.testing.assert_close(given, out, rtol=1e-13, atol=1e-13)


@each_normalization
def test_a_given_lattice_keeps_the_normalizer(normalize, monkeypatch):
    """From the second call on, there is one pass."""
    x, feature, batch = cloud(graphs=2)
    expected = gaussian_filter(x, feature, batch, normalize)
    lattice = Lattice.build(feature, batch)
    passes, blur = [], Lattice.blur
    monkeypatch.setattr(Lattice, "blur", lambda *args: passes.append(1) or blur(*args))
    for _ in range(3):
        out = gaussian_filter(x, feature, batch, normalize, lattice)
        torch.testing.assert_close(out, expected, rtol=1e-13, atol=1e-13)
    assert len(passes) == (3 if normalize is None else 4)


def test_after_takes_one_pass(monkeypatch):
    """Without a cached normalizer, ones are filtered along with the values."""
    x, feature, _ = cloud()
    passes, blur = [], Lattice.blur
    monkeypatch.setattr(Lattice, "blur", lambda *args: passes.append(1) or blur(*args))
    gaussian_filter(x, feature)
    lattice = Lattice.build(feature.requires_grad_())
    for _ in range(2):
        out = gaussian_filter(x, None, lattice=lattice)
        (grad,) = torch.autograd.grad(out.sum(), feature, retain_graph=True)
        assert grad.any()
    assert len(passes) == 3


def test_output_points_that_nothing_reaches():
    """They give 0, and gradients there are finite."""
    x, src = torch.rand(30, 2), torch.rand(30, 2).requires_grad_()
    dst = torch.cat([torch.full((1, 2), 50.0), torch.rand(5, 2)]).requires_grad_()
    for normalize in ("after", "symmetric"):
        out = gaussian_filter(x, (src, dst), normalize=normalize)
        assert not out[0].any() and out[1:].all()
        for grad in torch.autograd.grad(out.square().sum(), (src, dst)):
            assert grad.isfinite().all()


# Properties


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
@each_filter
def test_constants_stay_constant(filter, dtype):
    _, feature, batch = cloud(graphs=2)
    x = torch.full((80, 1), -3.7, dtype=dtype)
    torch.testing.assert_close(filter(x, feature.to(dtype), batch, "after"), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_constants_in_half_precision(dtype):
    _, feature, _ = cloud()
    x = torch.full((80, 1), 3.5, dtype=dtype)
    out = gaussian_filter(x, feature.to(dtype))
    assert out.dtype == dtype
    torch.testing.assert_close(out, x, rtol=0.02, atol=0)


@pytest.mark.parametrize("normalize", ["before", "after", "symmetric"])
def test_half_precision_holds_many_points_in_one_place(normalize):
    """Sums over 100,000 points do not fit into a half; the result does."""
    x = torch.ones(100_000, 1, dtype=torch.float16)
    out = gaussian_filter(x, torch.zeros(100_000, 2), normalize=normalize)
    torch.testing.assert_close(out, x, rtol=0.01, atol=0)


def test_symmetric_is_symmetric():
    """The lattice is so only where it is dense: its blur takes the axes in order."""
    _, feature, _ = cloud(40)
    matrix = brute_force_filter(torch.eye(40, dtype=DOUBLE), feature, None, "symmetric")
    torch.testing.assert_close(matrix, matrix.t())
    side = torch.arange(0, 4, 0.1, dtype=DOUBLE)[:, None]
    matrix = gaussian_filter(torch.eye(40, dtype=DOUBLE), side, None, "symmetric")
    torch.testing.assert_close(matrix, matrix.t())


@each_filter
def test_before_keeps_the_mass(filter):
    """``before`` is the transpose of ``after`` for a symmetric kernel: columns sum to one."""
    _, feature, _ = cloud(40)
    before = filter(torch.eye(40, dtype=DOUBLE), feature, None, "before")
    plain = filter(torch.eye(40, dtype=DOUBLE), feature, None, None)
    torch.testing.assert_close(before, plain / plain.sum(1))


@each_filter
@pytest.mark.parametrize("normalize", ["after", "symmetric", "before"])
def test_isolated_point_keeps_its_value(filter, normalize):
    _, feature, _ = cloud()
    feature[17] = 1000.0
    x = torch.randn(80, 2, dtype=DOUBLE)
    torch.testing.assert_close(filter(x, feature, None, normalize)[17], x[17])


@each_filter
@each_normalization
def test_empty(filter, normalize):
    out = filter(torch.empty(0, 2), torch.empty(0, 3), normalize=normalize)
    assert out.shape == (0, 2)


@each_normalization
def test_single_point(normalize):
    out = gaussian_filter(torch.tensor([[2.0]]), torch.tensor([[0.3, 0.4]]), normalize=normalize)
    assert out.shape == (1, 1) and 0 < out.item() <= 2.0 + 1e-6


@pytest.mark.parametrize(
    ("count", "normalize"), [*((50, normalize) for normalize in NORMALIZATIONS), (3000, "after")]
)
def test_three_graphs_are_three_calls(count, normalize):
    """Bit for bit: few points to a vertex, and many."""
    clouds = [cloud(count + i, 2) for i in range(3)]
    x, feature = (torch.cat([each[i] for each in clouds]) for i in (0, 1))
    batch = torch.arange(3).repeat_interleave(torch.tensor([len(each[0]) for each in clouds]))
    singles = torch.cat([gaussian_filter(*each[:2], normalize=normalize) for each in clouds])
    together = gaussian_filter(x, feature, batch, normalize)
    torch.testing.assert_close(together, singles, rtol=1e-12, atol=1e-12)
    assert torch.equal(together, singles)


def test_input_is_left_alone():
    x, feature, batch = cloud(graphs=2)
    before = x.clone(), feature.clone(), batch.clone()
    gaussian_filter(x, feature, batch), brute_force_filter(x, feature, batch)
    for old, new in zip(before, (x, feature, batch), strict=True):
        assert torch.equal(old, new)


# Gradients


@each_normalization
@each_filter
def test_gradients(filter, normalize):
    x = torch.randn(9, 2, dtype=DOUBLE, requires_grad=True)
    feature = (torch.rand(9, 2, dtype=DOUBLE) * 3).requires_grad_()
    batch = torch.tensor([0, 1, 0, 1, 0, 1, 0, 1, 1])
    assert gradcheck(lambda x, f: filter(x, f, batch, normalize), (x, feature))


@pytest.mark.parametrize("normalize", ["after", "symmetric"])
def test_second_gradients(normalize):
    x = torch.randn(5, 1, dtype=DOUBLE, requires_grad=True)
    feature = (torch.rand(5, 2, dtype=DOUBLE) * 3).requires_grad_()
    assert torch.autograd.gradgradcheck(
        lambda x, f: gaussian_filter(x, f, normalize=normalize), (x, feature)
    )


def test_compiles_into_one_graph():
    x = torch.rand(200, 2, requires_grad=True)
    feature = (torch.rand(200, 3) * 5).requires_grad_()
    compiled = torch.compile(gaussian_filter, fullgraph=True, dynamic=True, backend="aot_eager")
    out, expected = compiled(x, feature), gaussian_filter(x, feature)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(
        torch.autograd.grad(out.square().sum(), (x, feature)),
        torch.autograd.grad(expected.square().sum(), (x, feature)),
        rtol=1e-4,
        atol=1e-5,
    )


# The report


def test_report_on_a_smooth_image():
    report = approximation_report(*smooth_image())
    assert report.psnr > 45
    assert (report.num_checked, report.num_points) == (4096, 4096)
    assert 0 < report.num_vertices < 4096
    assert str(report) == (
        f"{report.psnr:.1f} dB against the exact filter, largest error {report.max_error:.3g} "
        f"(4096 of 4096 points, {report.num_vertices} vertices)"
    )


def test_report_agrees_with_the_filters():
    x, feature = smooth_image(24)
    error = gaussian_filter(x, feature) - brute_force_filter(x, feature)
    report = approximation_report(x, feature)
    peak = (x.max() - x.min()).item()
    assert report.max_error == pytest.approx(error.abs().max().item())
    assert report.psnr == pytest.approx(10 * np.log10(peak**2 / error.square().mean().item()))


def test_report_draws_samples():
    x, feature = smooth_image(24)
    report = approximation_report(x, feature, samples=100)
    assert report.num_checked == 100
    assert report == approximation_report(x, feature, samples=100, seed=0)
    assert report != approximation_report(x, feature, samples=100, seed=1)


def test_report_whatever_the_default_device():
    x, feature = smooth_image(24)
    expected = approximation_report(x, feature, samples=100)
    with torch.device("meta"):
        assert approximation_report(x, feature, samples=100) == expected


def test_report_of_nothing():
    report = approximation_report(torch.empty(0, 1), torch.empty(0, 2))
    assert report == ApproximationReport(float("inf"), 0.0, 0, 0, 0)


# Errors

X, FEATURE = torch.rand(10, 2), torch.rand(10, 3)
ZERO = torch.zeros(10, dtype=torch.int64)
BAD = [
    ("x list", ([1.0], FEATURE), TypeError, r"'x' to be a tensor \(got list\)"),
    ("x short", (X[:9], FEATURE), ValueError, r"'x' of shape \[10, C\].* \(got \[9, 2\]\)"),
    ("x flat", (X[:, 0], FEATURE), ValueError, r"'x' of shape \[10, C\].* \(got \[10\]\)"),
    ("x int", (X.long(), FEATURE), TypeError, r"'x' of a floating.* \(got torch.int64\)"),
    ("x device", (X.to("meta"), FEATURE), ValueError, r"'x' on cpu .*\(got meta\)"),
    ("feature float", (X, 1.0), TypeError, r"'feature' to be a tensor \(got float\)"),
    ("feature flat", (X, FEATURE[:, 0]), ValueError, r"'feature' of shape \[N, d\] \(got \[10\]"),
    ("feature int", (X, FEATURE.long()), TypeError, r"'feature' of a floating.*torch.int64"),
    ("feature nan", (X, FEATURE * torch.nan), ValueError, r"'feature' \(got nan in row 0"),
    ("batch int32", (X, FEATURE, ZERO.int()), TypeError, r"'batch' .*int64.*got torch.int32"),
    ("batch short", (X, FEATURE, ZERO[:3]), ValueError, r"'batch' of shape \[10\].*got \[3\]"),
    ("normalize", (X, FEATURE, ZERO, "both"), ValueError, r"'normalize' to be None.*got 'both'"),
    ("normalize", (X, FEATURE, ZERO, True), ValueError, r"'normalize' to be None.*got True"),
]


@each_filter
@pytest.mark.parametrize(
    ("arguments", "error", "message"), [pytest.param(*rest, id=name) for name, *rest in BAD]
)
def test_errors(filter, arguments, error, message):
    with pytest.raises(error, match=message):
        filter(*arguments)


LATTICE = Lattice.build(FEATURE)
BAD_LATTICES = [
    ("type", (FEATURE, None, 3), TypeError, r"'lattice' to be a Lattice \(got int\)"),
    ("alone", ((FEATURE,) * 2, None, LATTICE), ValueError, r"'lattice' to be a pair .*a Lattice"),
    ("at", (None, None, (LATTICE, 1)), TypeError, r"'at' to be an Incidence \(got int\)"),
    ("count", (FEATURE[:9], None, LATTICE), ValueError, r"the 9 points of 'feature' .*10 points"),
    ("dim", (X, None, LATTICE), ValueError, r"'feature' of shape \[N, 3\] .*got \[10, 2\]"),
    ("points", (FEATURE + 1, None, LATTICE), ValueError, r"the points of 'feature' .*row 0 is"),
    ("batch", (FEATURE, ZERO.int(), LATTICE), TypeError, r"'batch' .*int64.*got torch.int32"),
    ("device", (FEATURE.to("meta"), None, LATTICE), ValueError, r"'feature' on cpu \(got meta\)"),
    ("neither", (None, None, None), TypeError, r"'feature' or 'lattice' \(got neither\)"),
    ("three", ((FEATURE,) * 3, None, None), ValueError, r"'feature' to be a pair.*got 3 items"),
    ("one batch", ((FEATURE,) * 2, ZERO, None), ValueError, r"'batch' to be a pair.*got Tensor"),
    ("two", (FEATURE, (ZERO, ZERO), None), ValueError, r"'batch' to be one tensor.*got a pair"),
]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [pytest.param(*rest, id=name) for name, *rest in BAD_LATTICES],
)
def test_errors_of_a_given_lattice(arguments, error, message):
    feature, batch, lattice = arguments
    with pytest.raises(error, match=f"^Expected {message}|^Expected .*{message}") as caught:
        gaussian_filter(X, feature, batch, "after", lattice)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "error", "message"), [pytest.param(*rest, id=name) for name, *rest in BAD[:-2]]
)
def test_errors_of_the_report(arguments, error, message):
    with pytest.raises(error, match=message):
        approximation_report(*arguments)


def test_brute_force_takes_half_precision_too():
    x, feature, _ = cloud(20)
    out = brute_force_filter(x.half(), feature.half())
    assert out.dtype == torch.float16
    np.testing.assert_allclose(out, brute_force_filter(x, feature), atol=0.02)
