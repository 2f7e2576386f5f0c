"""The CRF against dense matrices in float64, made by the oracle or by brute force."""

import copy
import io
import itertools

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax

from permutogeo import Lattice, stencils
from permutogeo.nn import (
    Compatibility,
    DenseCRF,
    FrankWolfe,
    GaussianKernel,
    LearnedKernel,
    MeanField,
)
from permutogeo.nn import _mean_field as mean_field
from permutogeo.nn.crf_solver import project_to_simplex
from permutogeo.testing.reference import ReferenceLattice

DOUBLE = torch.float64
NORMALIZATIONS = [None, "before", "after", "symmetric"]
MU = np.array([[-1.0, 0.3, 0.1], [0.2, -0.7, 0.4], [0.0, 0.5, -1.2]])


def dense_kernel(feature, batch, normalize, radius=None, filter_weight=None):
    """The kernel as a matrix: blur, or a filter on a stencil."""
    lattice = ReferenceLattice(feature, batch)
    if radius is None:
        gaussian = kernel = lattice.slice_matrix() @ lattice.blur_matrix() @ lattice.splat_matrix()
    else:
        offsets = stencils.stencil(feature.shape[1], radius).numpy()
        splat = lattice.splat_matrix()

        def matrix(taps):
            return lattice.slice(lattice.convolve_shared(splat, taps, offsets))

        gaussian = matrix(stencils.gaussian(feature.shape[1], radius).numpy())
        kernel = gaussian if filter_weight is None else matrix(filter_weight)
    n = gaussian.sum(1) + 1e-20
    before, after = {None: (0, 0), "before": (1, 0), "after": (0, 1), "symmetric": (0.5, 0.5)}[
        normalize
    ]
    return kernel * n[:, None] ** -after * n[None, :] ** -before


def mean_field_by_hand(unary, matrices, mus, steps, exclude_self=False, damping=0.0):
    """Marginals, one step of updates after another."""
    logits = unary
    for _ in range(steps):
        q = softmax(logits, 1)
        update = unary.copy()
        for matrix, mu in zip(matrices, mus, strict=True):
            own = np.diag(np.diag(matrix)) if exclude_self else 0
            update -= (matrix - own) @ q @ mu
        logits = (1 - damping) * update + damping * log_softmax(logits, 1)
    return log_softmax(logits, 1)


@pytest.fixture
def points():
    unary = 2 * torch.randn(50, 3, dtype=DOUBLE)
    features = [torch.rand(50, 2, dtype=DOUBLE) * 4, torch.rand(50, 3, dtype=DOUBLE) * 3]
    return unary, features, torch.arange(50) % 2


def test_str():
    crf = DenseCRF(3, [GaussianKernel(2, weight=2), LearnedKernel(3, radius=2)], loose=True)
    head, *rest = str(crf).splitlines()
    assert head == "DenseCRF("
    assert rest[0].strip() == (
        "3, num_steps=5, normalize=['symmetric', 'symmetric'], loose=True, exclude_self=False, "
        "solver=MeanField(damping=0)"
    )
    assert "GaussianKernel(" in str(crf)
    assert "dim=3, radius=2, weight=1" in str(crf)


@pytest.mark.parametrize("exclude_self", [False, True])
@pytest.mark.parametrize("normalize", NORMALIZATIONS)
@pytest.mark.parametrize("compatibility", ["potts", MU], ids=["potts", "full"])
def test_is_mean_field_with_dense_matrices(points, normalize, compatibility, exclude_self):
    unary, features, batch = points
    learned = LearnedKernel(3, radius=1, weight=0.5).double()
    with torch.no_grad():
        learned.filter_weight += 0.1 * torch.randn(15, dtype=DOUBLE)
    given = compatibility if isinstance(compatibility, str) else torch.from_numpy(compatibility)
    crf = DenseCRF(
        3,
        [GaussianKernel(2, [0.5, 2.0], weight=0.7), learned],
        compatibility=given,
        num_steps=3,
        normalize=normalize,
        exclude_self=exclude_self,
    ).double()
    matrices = [
        0.7 * dense_kernel(features[0] / torch.tensor([0.5, 2.0]), batch, normalize),
        0.5
        * dense_kernel(features[1], batch, normalize, 1, learned.filter_weight.detach().numpy()),
    ]
    mu = -np.eye(3) if given is compatibility else MU
    expected = mean_field_by_hand(unary.numpy(), matrices, [mu] * 2, 3, exclude_self)
    np.testing.assert_allclose(crf(unary, features, batch).detach(), expected, atol=1e-9)


def test_compatibility_and_normalization_of_each_kernel(points):
    unary, features, _ = points
    diagonal = torch.tensor([0.5, -1.0, 2.0])
    crf = DenseCRF(
        3,
        [GaussianKernel(2), GaussianKernel(3)],
        compatibility=[diagonal, torch.from_numpy(MU)],
        normalize=["after", None],
        num_steps=2,
        damping=0.25,
    ).double()
    matrices = [
        dense_kernel(features[0], None, "after"),
        dense_kernel(features[1], None, None),
    ]
    mus = [np.diag(diagonal.numpy()), MU]
    expected = mean_field_by_hand(unary.numpy(), matrices, mus, 2, damping=0.25)
    np.testing.assert_allclose(crf(unary, features), expected, atol=1e-9)


@pytest.mark.parametrize("loose", [False, True])
@pytest.mark.parametrize("labels", [1, 3, 8, 21, 64])
@pytest.mark.parametrize("kind", ["potts", "full"])
def test_without_gradients_it_is_the_same(labels, kind, loose):
    """The route that keeps marginals in the cache, in several chunks and stretches."""
    unary = 3 * torch.randn(40000, labels)
    features = [torch.rand(40000, 2) * 20, torch.rand(40000, 3) * 5]
    kernels = [GaussianKernel(2, weight=2.0), LearnedKernel(3, weight=0.5)]
    crf = DenseCRF(labels, kernels, kind, 3, loose=loose, learn_compatibility=loose)
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter, parameter.mean().item(), 0.05)
    with torch.no_grad():
        problem = crf.problem(unary, features)
        assert mean_field.applies(problem)
        fast = crf(unary, features)
        slow = torch.log_softmax(crf._iterate(problem), 1)
    torch.testing.assert_close(fast.exp(), slow.exp(), rtol=1e-4, atol=1e-5)
    assert fast.shape == (40000, labels)
    assert fast.is_contiguous()


def test_where_the_fast_route_does_not_apply(points):
    for unary, kernel in [  # too many vertices, doubles, many labels
        (points[0].float(), GaussianKernel(2, 0.01)),
        (torch.randn(5000, 3, dtype=DOUBLE), GaussianKernel(2)),
        (torch.randn(5000, 80), GaussianKernel(2)),
    ]:
        crf = DenseCRF(unary.shape[1], [kernel])
        feature = torch.rand(len(unary), 2, dtype=unary.dtype)
        with torch.no_grad():
            assert not mean_field.applies(crf.problem(unary, [feature]))
            out = crf(unary, [feature])
        torch.testing.assert_close(out, crf(unary, [feature]))


def test_fast_route_does_not_depend_on_threads():
    unary, feature = torch.randn(60000, 5), torch.rand(60000, 2) * 30
    crf, before = DenseCRF(5, [GaussianKernel(2, weight=3.0)]), torch.get_num_threads()
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        with torch.no_grad():
            results.append(crf(unary, [feature]))
    torch.set_num_threads(before)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_a_batch_is_its_graphs(points):
    unary, features, _ = points
    sizes = [20, 0, 29, 1]  # the second graph is empty
    batch = torch.arange(4).repeat_interleave(torch.tensor(sizes))
    crf = DenseCRF(3, [GaussianKernel(2), LearnedKernel(3)], exclude_self=True).double()
    out = crf(unary, features, batch)
    parts = list(zip(unary.split(sizes), *(f.split(sizes) for f in features), strict=True))
    single = [crf(u, list(f)) for u, *f in parts]
    torch.testing.assert_close(out, torch.cat(single), rtol=1e-10, atol=1e-10)
    energy = crf.problem(unary, features, batch).free_energy(out)
    alone = [
        crf.problem(u, list(f)).free_energy(o) for (u, *f), o in zip(parts, single, strict=True)
    ]
    torch.testing.assert_close(energy, torch.cat(alone), rtol=1e-10, atol=1e-10)
    assert energy[1] == 0


@pytest.mark.parametrize("backward", ["unroll", "checkpoint"])
@pytest.mark.parametrize("exclude_self", [False, True])
def test_gradcheck(backward, exclude_self):
    """Unaries, features, bandwidths, weights, filter and compatibility."""
    unary = torch.randn(7, 3, dtype=DOUBLE, requires_grad=True)
    features = [torch.rand(7, d, dtype=DOUBLE).mul(2).requires_grad_() for d in (1, 2)]
    kernels = [
        GaussianKernel(1, 0.7, 0.8, learn_sigma=True, learn_weight=True),
        LearnedKernel(2, weight=0.6, learn_sigma=True, learn_weight=True),
    ]
    crf = DenseCRF(
        3, kernels, "full", 2, learn_compatibility=True, exclude_self=exclude_self,
        backward=backward,
    ).double()  # fmt: skip
    names = [name for name, _ in crf.named_parameters()]

    def call(unary, first, second, *parameters):
        values = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(crf, values, (unary, [first, second]))

    assert len(names) == 7
    assert torch.autograd.gradcheck(call, (unary, *features, *crf.parameters()))


def test_implicit_gradient_is_that_of_many_steps(points):
    unary, features, _ = points
    unary.requires_grad_()
    results = []
    for options in ({"backward": "implicit", "tolerance": 1e-12}, {}):
        kernel = GaussianKernel(2, weight=1.5, learn_weight=True, learn_sigma=True)
        crf = DenseCRF(3, [kernel], num_steps=300, damping=0.3, **options).double()
        out = crf(unary, features[:1])
        weight = torch.linspace(-1, 1, out.numel(), dtype=DOUBLE).view_as(out)
        inputs = (unary, *crf.parameters())
        results.append([out, *torch.autograd.grad((out.exp() * weight).sum(), inputs)])
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-7)


def test_implicit_gradient_says_when_there_is_none():
    """Two points that push each other about have no fixed point that is reached."""
    unary = torch.randn(40, 2, dtype=DOUBLE, requires_grad=True)
    feature = torch.rand(40, 1, dtype=DOUBLE)
    repulsive = Compatibility(2, -60.0)
    crf = DenseCRF(2, [GaussianKernel(1)], repulsive, 3, backward="implicit").double()
    out = crf(unary, [feature])
    assert torch.autograd.grad(out.sum(), unary)[0].isfinite().all()


def test_tolerance_ends_early(points):
    unary, features, _ = points
    crf = DenseCRF(3, [GaussianKernel(2)], num_steps=1000, tolerance=1e-8).double()
    calls = []
    step = crf.solver.step
    crf.solver.step = lambda *arguments: calls.append(1) or step(*arguments)
    out = crf(unary, features[:1])
    assert 2 < len(calls) < 100
    crf.solver.step = step
    more = torch.log_softmax(crf.solver.step(crf.problem(unary, features[:1]), out, 0), 1)
    torch.testing.assert_close(more.exp(), out.exp(), atol=1e-7, rtol=0)


def test_damped_steps_lower_the_free_energy(points):
    unary, features, batch = points
    crf = DenseCRF(3, [GaussianKernel(2, weight=6.0)], num_steps=30, damping=0.7).double()
    problem = crf.problem(unary, features[:1], batch)
    energies = torch.stack([problem.free_energy(logits) for logits in crf.steps(problem)])
    assert energies.shape == (31, 2)
    assert (energies.diff(dim=0) < 1e-9).all()
    assert (energies[-1] < energies[0] - 0.1).all()


def test_loose_steps_have_kernels_of_their_own(points):
    unary, features, _ = points
    kernel = LearnedKernel(2, learn_sigma=True)
    tied = DenseCRF(3, [kernel], num_steps=2, learn_compatibility=True).double()
    loose = DenseCRF(3, [copy.deepcopy(kernel)], num_steps=2, loose=True, learn_compatibility=True)
    loose = loose.double()
    torch.testing.assert_close(loose(unary, features[:1]), tied(unary, features[:1]))
    assert len(list(loose.parameters())) == 2 * len(list(tied.parameters()))
    with torch.no_grad():
        loose.kernels[1][0].filter_weight.mul_(0.5)
        loose.kernels[1][0].bandwidth.log_sigma.add_(0.3)
    first = log_softmax(
        unary.numpy() + dense_kernel(features[0], None, "symmetric", 1) @ softmax(unary.numpy(), 1),
        1,
    )
    half = 0.5 * stencils.gaussian(2, 1).numpy()
    second = dense_kernel(features[0] / np.exp(0.3), None, "symmetric", 1, half)
    expected = log_softmax(unary.numpy() + second @ softmax(first, 1), 1)
    np.testing.assert_allclose(loose(unary, features[:1]).detach(), expected, atol=1e-9)


def test_energy_and_divergence_by_enumeration():
    """Six points and two labels have 64 labelings."""
    unary, feature = torch.randn(6, 2, dtype=DOUBLE), torch.rand(6, 2, dtype=DOUBLE)
    crf = DenseCRF(2, [GaussianKernel(2, weight=0.8)], exclude_self=True, num_steps=50).double()
    problem = crf.problem(unary, [feature])
    kernel = 0.8 * dense_kernel(feature, None, "symmetric")
    energies = []
    for labels in itertools.product([0, 1], repeat=6):
        labels = torch.tensor(labels)
        by_hand = -unary[torch.arange(6), labels].sum()
        for i, j in itertools.combinations(range(6), 2):
            # A pair counts once; the lattice's kernel need not be symmetric.
            by_hand -= (labels[i] == labels[j]) * 0.5 * (kernel[i, j] + kernel[j, i])
        torch.testing.assert_close(problem.energy(labels), by_hand.view(1))
        energies.append((labels, by_hand))
    log_partition = torch.logsumexp(-torch.stack([e for _, e in energies]), 0)
    log_q = crf(unary, [feature])
    exact = sum(
        (q := log_q[torch.arange(6), labels].sum()).exp() * (q + energy + log_partition)
        for labels, energy in energies
    )
    torch.testing.assert_close(problem.kl_divergence(log_q, log_partition), exact.view(1))
    assert exact > 0
    start = next(iter(crf.steps(problem)))
    assert problem.kl_divergence(log_q) < problem.kl_divergence(start)


def test_labels_are_the_most_probable(points):
    unary, features, batch = points
    crf = DenseCRF(3, [GaussianKernel(2)]).double()
    out = crf(unary, features[:1], batch)
    assert torch.equal(crf.labels(unary, features[:1], batch), out.argmax(1))


def test_frank_wolfe_with_entropy_and_full_steps_is_mean_field(points):
    unary, features, _ = points
    solver = FrankWolfe("entropy", step_size=1.0)
    crf = DenseCRF(3, [GaussianKernel(2)], solver=solver).double()
    expected = DenseCRF(3, [GaussianKernel(2)]).double()(unary, features[:1])
    torch.testing.assert_close(crf(unary, features[:1]), expected)


@pytest.mark.parametrize("regularizer", ["entropy", "l2"])
def test_frank_wolfe_finds_the_minimum(points, regularizer):
    """A convex problem, since the kernel repels: scipy's minimum over simplices is the same."""
    from scipy.optimize import minimize

    unary, feature = points[0][:6], points[1][0][:6]
    solver = FrankWolfe(regularizer, strength=0.5, step_size=0.1)
    options = {"normalize": None, "num_steps": 300, "solver": solver}
    gaussian = LearnedKernel(2, learn_filter=False)  # symmetric, which the blur past gaps is not
    crf = DenseCRF(3, [gaussian], Compatibility(3, -0.3), **options).double()
    q = crf(unary, [feature]).exp()
    kernel = 0.3 * dense_kernel(feature, None, None, 1)
    np.testing.assert_allclose(kernel, kernel.T)

    def objective(flat):
        p = softmax(flat.reshape(6, 3), 1) if regularizer == "entropy" else flat.reshape(6, 3)
        r = (p * np.log(p)).sum() if regularizer == "entropy" else 0.5 * (p**2).sum()
        return -(p * unary.numpy()).sum() + 0.5 * (p * (kernel @ p)).sum() + 0.5 * r

    if regularizer == "entropy":
        p = softmax(minimize(objective, np.zeros(18), tol=1e-12).x.reshape(6, 3), 1)
    else:
        rows = {"type": "eq", "fun": lambda flat: flat.reshape(6, 3).sum(1) - 1}
        found = minimize(
            objective, np.full(18, 1 / 3), bounds=[(0, 1)] * 18, constraints=rows, tol=1e-12
        )
        p = found.x.reshape(6, 3)
        assert (p < 1e-6).any()
    np.testing.assert_allclose(q, p, atol=2e-3)


def test_projection_is_the_nearest_point():
    rows = 2 * torch.randn(200, 4, dtype=DOUBLE)
    out = project_to_simplex(rows)
    torch.testing.assert_close(out.sum(1), torch.ones(200, dtype=DOUBLE))
    assert (out >= 0).all()
    grid = torch.tensor(
        [c for c in itertools.product(range(21), repeat=4) if sum(c) == 20], dtype=DOUBLE
    )
    best = torch.cdist(rows, grid / 20).min(1).values
    assert ((rows - out).norm(dim=1) <= best + 1e-12).all()


@pytest.mark.parametrize("solver", ["mean_field", FrankWolfe("l2"), FrankWolfe("entropy")])
@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
def test_no_nan_for_extremes(solver, dtype):
    constant = torch.zeros(30, 2, dtype=dtype)
    for labels, count, scale in [(3, 30, 1e4), (1, 30, 1.0), (3, 1, 1e4), (3, 0, 1.0)]:
        unary = (scale * torch.randn(count, labels).sign()).to(dtype).requires_grad_()
        crf = DenseCRF(labels, [GaussianKernel(2, weight=100.0)], solver=solver)
        for exclude_self in (False, True):
            crf.exclude_self = exclude_self
            out = crf(unary, [constant[:count]])
            assert out.shape == unary.shape
            assert not out.isnan().any()
            (gradient,) = torch.autograd.grad(out.exp().square().sum(), unary)
            assert gradient.isfinite().all()
            with torch.no_grad():
                torch.testing.assert_close(crf(unary, [constant[:count]]).exp(), out.exp())


def test_no_kernel_and_no_step(points):
    unary, features, _ = points
    expected = torch.log_softmax(unary, 1)
    assert torch.equal(DenseCRF(3, [])(unary, []), expected)
    assert torch.equal(DenseCRF(3, [GaussianKernel(2)], num_steps=0)(unary, features[:1]), expected)


def test_given_lattices(points):
    unary, features, batch = points
    crf = DenseCRF(3, [GaussianKernel(2, 0.5), LearnedKernel(3)]).double()
    lattices = [Lattice.build(features[0] / 0.5, batch), Lattice.build(features[1], batch)]
    out = crf(unary, features, batch)
    assert torch.equal(crf(unary, features, batch, lattices), out)
    assert torch.equal(crf(unary, [None, None], batch, lattices), out)


def test_half_precision(points):
    unary, features, _ = points
    crf = DenseCRF(3, [GaussianKernel(2)])
    out = crf(unary.half(), [features[0].float()])
    assert out.dtype == torch.float16
    expected = crf(unary.float(), [features[0].float()])
    torch.testing.assert_close(out.float().exp(), expected.exp(), atol=2e-3, rtol=0)


def test_state_survives(points, tmp_path):
    from safetensors.torch import load_file, save_file

    unary, features, _ = points
    make = lambda: DenseCRF(  # noqa: E731
        3, [LearnedKernel(2, learn_sigma=True)], "low_rank", 2, loose=True, learn_compatibility=True
    ).double()
    crf = make()
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter, 0.1, 0.1)
    expected = crf(unary, features[:1])
    save_file(crf.state_dict(), tmp_path / "crf.safetensors")
    other = make()
    other.load_state_dict(load_file(tmp_path / "crf.safetensors"))
    for again in (other, copy.deepcopy(crf)):
        assert torch.equal(again(unary, features[:1]), expected)
    buffer = io.BytesIO()
    torch.save(crf, buffer)
    buffer.seek(0)
    again = torch.load(buffer, weights_only=False)
    assert torch.equal(again(unary, features[:1]), expected)


def test_reset_brings_back_the_gaussian(points):
    crf = DenseCRF(3, [LearnedKernel(2, weight=2.0, learn_weight=True)])
    for parameter in crf.parameters():
        torch.nn.init.zeros_(parameter)
    crf.reset_parameters()
    kernel = crf.kernels[0][0]
    torch.testing.assert_close(kernel.filter_weight.double(), stencils.gaussian(2, 1))
    assert kernel.weight == 2


def test_training_lowers_the_loss(points):
    """Labels in stripes, unaries that are mostly noise."""
    feature = torch.rand(400, 2) * 8
    y = (feature[:, 0] / 2).long() % 3
    unary = torch.nn.functional.one_hot(y, 3) + 1.5 * torch.randn(400, 3)
    crf = DenseCRF(3, [LearnedKernel(2, learn_weight=True)], "full", 3, learn_compatibility=True)
    optimizer = torch.optim.Adam(crf.parameters(), 0.05)
    losses = []
    for _ in range(15):
        loss = torch.nn.functional.nll_loss(crf(unary, [feature]), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    accuracy = (crf.labels(unary, [feature]) == y).float().mean()
    assert accuracy > (unary.argmax(1) == y).float().mean() + 0.05


NAN = torch.zeros(50, 3, dtype=DOUBLE)
NAN[7, 1] = float("nan")


@pytest.mark.parametrize(
    ("unary", "features", "message"),
    [
        (NAN, None, r"finite 'unary' \(got \[0.0, nan, 0.0\] in row 7\).*-1e4"),
        (torch.zeros(50, 4), None, r"'unary' of shape \[N, 3\] \(got \[50, 4\]\)"),
        (None, [torch.zeros(50, 2)], r"one for each of the 2 kernels \(got 1\)"),
        (None, torch.zeros(50, 2), r"one for each of the 2 kernels \(got 1\)"),
        (
            None,
            [torch.zeros(49, 2), torch.zeros(50, 3)],
            r"'features\[0\]' of shape \[50, 2\].*\(got \[49, 2\]\)",
        ),
        (
            None,
            [torch.zeros(50, 2), torch.zeros(50, 2)],
            r"'features\[1\]' of shape \[50, 3\].*\(got \[50, 2\]\)",
        ),
        (None, [None, torch.zeros(50, 3)], r"a tensor or a lattice for kernel 0 \(got neither\)"),
        (None, [torch.zeros(50, 2), 1.0], r"'features\[1\]' to be a tensor \(got float\)"),
    ],
)
def test_wrong_calls(points, unary, features, message):
    crf = DenseCRF(3, [GaussianKernel(2), GaussianKernel(3)]).double()
    unary = points[0] if unary is None else unary
    features = points[1] if features is None else features
    with pytest.raises((ValueError, TypeError), match=f"^DenseCRF: .*{message}"):
        crf(unary, features)


def test_wrong_batch_and_lattice(points):
    unary, features, batch = points
    crf = DenseCRF(3, [GaussianKernel(2)]).double()
    with pytest.raises(ValueError, match=r"^DenseCRF: .*'batch' of shape \[50\] \(got \[49\]\)"):
        crf(unary, features[:1], batch[1:])
    other = Lattice.build(features[0][:20])
    with pytest.raises(ValueError, match=r"'lattices\[0\]' of the 50 points.*\(got one of 20"):
        crf(unary, [None], lattices=[other])
    learned = DenseCRF(3, [GaussianKernel(2, learn_sigma=True)]).double()
    with pytest.raises(ValueError, match="no lattice with learn_sigma=True"):
        learned(unary, features[:1], lattices=[Lattice.build(features[0])])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianKernel(2, -1.0), r"GaussianKernel: .*'sigma'.*positive.*\(got -1.0\)"),
        (lambda: GaussianKernel(2, [1, 2, 3]), r"one for each of the 2 features"),
        (lambda: LearnedKernel(2, weight="a"), r"LearnedKernel: .*'weight' to be a number"),
        (lambda: LearnedKernel(2, radius=-1), r"LearnedKernel: .*'radius' of at least 0"),
        (lambda: DenseCRF(0, []), r"'num_classes' of at least 1 \(got 0\)"),
        (lambda: DenseCRF(3, [torch.nn.Linear(1, 1)]), r"GaussianKernel or LearnedKernel"),
        (lambda: DenseCRF(3, [GaussianKernel(2)], normalize="max"), r"'normalize'"),
        (lambda: DenseCRF(3, [GaussianKernel(2)], torch.ones(3, 4)), r"\[3, 3\] for 3 labels"),
        (lambda: DenseCRF(3, [GaussianKernel(2)], Compatibility(4)), r"of 3 labels \(got one of 4"),
        (lambda: DenseCRF(3, [GaussianKernel(2)], ["potts"] * 2), r"each of the 1 kernels"),
        (lambda: DenseCRF(3, [], tolerance=-1.0), r"'tolerance' of at least 0"),
        (lambda: DenseCRF(3, [], loose=True, tolerance=0.1), r"no 'tolerance' with loose=True"),
        (lambda: DenseCRF(3, [], damping=1.0), r"'damping' in \[0, 1\) \(got 1.0\)"),
        (lambda: DenseCRF(3, [], damping=0.5, solver=FrankWolfe()), r"'damping' with solver"),
        (lambda: DenseCRF(3, [], solver=FrankWolfe(), backward="implicit"), "a fixed point"),
        (lambda: DenseCRF(3, [], solver="newton"), r"'solver' to be 'mean_field' or 'frank_wolfe'"),
        (lambda: FrankWolfe("l3"), r"'regularizer' to be 'entropy' or 'l2'"),
        (lambda: FrankWolfe(strength=0.0), r"positive 'strength'"),
        (lambda: FrankWolfe(step_size=2.0), r"'step_size' in \(0, 1\]"),
        (lambda: MeanField(-0.1), r"'damping' in \[0, 1\)"),
    ],
)
def test_wrong_settings(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
