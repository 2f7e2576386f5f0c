"""Energy, divergence and Frank-Wolfe against enumeration and scipy."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import softmax

from permutogeo.nn import (
    Compatibility,
    DenseCRF,
    FrankWolfe,
    GaussianKernel,
    LearnedKernel,
)
from permutogeo.nn.crf_solver import project_to_simplex

DOUBLE = torch.float64


def test_energy_and_divergence_by_enumeration(dense_kernel):
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
