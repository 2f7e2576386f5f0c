"""Energies and divergences of a dense CRF against enumeration."""

import itertools

import torch

from permutogeo.nn import DenseCRF, GaussianKernel

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


def test_damped_steps_lower_the_free_energy(points):
    unary, features, batch = points
    crf = DenseCRF(3, [GaussianKernel(2, weight=6.0)], num_steps=30, damping=0.7).double()
    problem = crf.problem(unary, features[:1], batch)
    energies = torch.stack([problem.free_energy(logits) for logits in crf.steps(problem)])
    assert energies.shape == (31, 2)
    assert (energies.diff(dim=0) < 1e-9).all()
    assert (energies[-1] < energies[0] - 0.1).all()
