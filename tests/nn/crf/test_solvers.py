"""Mean field, fused mean field, Frank-Wolfe and implicit gradients."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import softmax

from permutogeo.nn import Compatibility, DenseCRF, FrankWolfe, GaussianKernel, LearnedKernel
from permutogeo.nn.crf.solvers import is_fusable, project_to_simplex

DOUBLE = torch.float64


def test_frank_wolfe_with_entropy_and_full_steps_is_mean_field(points):
    unary, features, _ = points
    solver = FrankWolfe("entropy", step_size=1.0)
    crf = DenseCRF(3, [GaussianKernel(2)], solver=solver).double()
    expected = DenseCRF(3, [GaussianKernel(2)]).double()(unary, features[:1])
    torch.testing.assert_close(crf(unary, features[:1]), expected)


@pytest.mark.parametrize("regularizer", ["entropy", "l2"])
def test_frank_wolfe_finds_the_minimum(points, regularizer, dense_kernel):
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


@pytest.mark.parametrize("loose", [False, True])
@pytest.mark.parametrize("labels", [1, 3, 8, 21, 64])
@pytest.mark.parametrize("kind", ["potts", "full"])
def test_without_gradients_it_is_the_same(labels, kind, loose):
    """Fused mean field, in several chunks and threads, gives what the solver gives."""
    unary = 3 * torch.randn(40000, labels)
    features = [torch.rand(40000, 2) * 20, torch.rand(40000, 3) * 5]
    kernels = [GaussianKernel(2, weight=2.0), LearnedKernel(3, weight=0.5)]
    crf = DenseCRF(labels, kernels, kind, 3, loose=loose, learn_compatibility=loose)
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter, parameter.mean().item(), 0.05)
    with torch.no_grad():
        problem = crf.problem(unary, features)
        assert is_fusable(problem)
        fast = crf(unary, features)
        slow = torch.log_softmax(crf._iterate(problem), 1)
    torch.testing.assert_close(fast.exp(), slow.exp(), rtol=1e-4, atol=1e-5)
    assert fast.shape == (40000, labels)
    assert fast.is_contiguous()


def test_where_the_fast_route_does_not_apply():
    for dtype, options in [(DOUBLE, {}), (torch.float32, {"exclude_self": True})]:
        unary, feature = torch.randn(500, 3, dtype=dtype), torch.rand(500, 2, dtype=dtype)
        crf = DenseCRF(3, [GaussianKernel(2)], **options)
        with torch.no_grad():
            assert not is_fusable(crf.problem(unary, [feature]))
            out = crf(unary, [feature])
        torch.testing.assert_close(out, crf(unary, [feature]))


@pytest.mark.parametrize(
    ("labels", "sigma"),
    [(3, 0.01), (80, 1.0), (400, 0.1)],
    ids=["a vertex a corner", "many labels", "hundreds"],
)
def test_fast_route_of_many_vertices_and_labels(labels, sigma):
    unary, feature = 3 * torch.randn(20000, labels), torch.rand(20000, 2)
    crf = DenseCRF(labels, [GaussianKernel(2, sigma, weight=3.0)], num_steps=2)
    with torch.no_grad():
        problem = crf.problem(unary, [feature])
        assert is_fusable(problem)
        slow = torch.log_softmax(crf._iterate(problem), 1)
        torch.testing.assert_close(crf(unary, [feature]), slow, rtol=1e-4, atol=1e-4)


def test_fast_route_does_not_depend_on_threads():
    unary = torch.randn(60000, 5)
    features = [torch.rand(60000, 2) * 30, torch.rand(60000, 3) * 90]  # few vertices, and many
    kernels = [GaussianKernel(2, weight=3.0), GaussianKernel(3, weight=3.0)]
    crf, before = DenseCRF(5, kernels), torch.get_num_threads()
    results = []
    for threads in range(1, 9):
        torch.set_num_threads(threads)
        with torch.no_grad():
            results.append(crf(unary, features))
    torch.set_num_threads(before)
    assert all(torch.equal(results[0], other) for other in results[1:])


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


@pytest.mark.parametrize("least", [-1e29, -1e30, -1e35, torch.finfo(torch.float32).min])
@pytest.mark.parametrize("labels", [3, 8, 21])
def test_masked_rows_keep_their_marginals(least, labels):
    """Rows whose logits are all hugely negative, in fused mean field as in the solver."""
    unary = torch.randn(5000, labels)
    unary[::7] = least
    feature = torch.rand(5000, 2) * 4
    crf = DenseCRF(labels, [GaussianKernel(2, weight=2.0)], num_steps=3)
    with torch.no_grad():
        problem = crf.problem(unary, [feature])
        assert is_fusable(problem)
        fused = crf(unary, [feature]).exp()
        plain = torch.log_softmax(crf._iterate(problem), 1).exp()
    torch.testing.assert_close(fused.sum(1), torch.ones(5000))
    torch.testing.assert_close(fused, plain, rtol=1e-4, atol=1e-5)
