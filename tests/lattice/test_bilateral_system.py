import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from permutogeo import Lattice
from permutogeo.lattice import bilateral_system
from permutogeo.lattice.bilateral_system import (
    BilateralSystem,
    bistochastic_scale,
    center_tap,
    reached_vertices,
    symmetric_blur,
)

DOUBLE = torch.float64


def make(dim=3, count=60, spread=4.0):
    return Lattice.build(torch.rand(count, dim, dtype=DOUBLE) * spread)


def dense(function, size):
    return function(torch.eye(size, dtype=DOUBLE))


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_the_blur_is_symmetric(dim):
    lattice = make(dim)
    matrix = dense(lambda x: symmetric_blur(lattice, x), lattice.num_vertices)
    torch.testing.assert_close(matrix, matrix.T, rtol=0, atol=1e-14)
    assert matrix.diagonal().min() >= center_tap(lattice) - 1e-12


def test_the_scaled_blur_is_bistochastic():
    lattice = make()
    scale, degree = bistochastic_scale(lattice, None, DOUBLE)
    matrix = scale * dense(lambda x: symmetric_blur(lattice, x), lattice.num_vertices) * scale.T
    torch.testing.assert_close(matrix.sum(1, keepdim=True), degree)
    mass = lattice.splat(torch.ones(60, 1, dtype=DOUBLE))
    torch.testing.assert_close(degree, mass, rtol=0.01, atol=1e-3)
    assert bistochastic_scale(lattice, None, DOUBLE)[0] is scale  # cached


def test_the_matrix_is_positive_definite():
    lattice = make()
    scale, degree = bistochastic_scale(lattice, None, DOUBLE)
    confidence = torch.zeros_like(scale)
    confidence[0] = 1.0
    lam = torch.tensor(2.0, dtype=DOUBLE)
    system = BilateralSystem(lattice, scale, degree, confidence, lam, None, 1e-12, 100)
    matrix = dense(system.apply, lattice.num_vertices)
    torch.testing.assert_close(matrix, matrix.T, rtol=0, atol=1e-12)
    torch.testing.assert_close(matrix.sum(1, keepdim=True), confidence, rtol=0, atol=1e-10)
    assert np.linalg.eigvalsh(matrix.numpy()).min() > -1e-12


@pytest.mark.parametrize("most_steps", [100, 1])  # from the seeds, and by components
def test_reached_vertices_are_connected_components(most_steps, monkeypatch):
    monkeypatch.setattr(bilateral_system, "_MOST_STEPS", most_steps)
    lattice = make(2, 40, spread=30.0)
    neighbors = lattice.neighbors(1, stencil="axis").numpy()
    row, column = (neighbors >= 0).nonzero()
    edges = (np.ones(len(row)), (row, neighbors[row, column]))
    count, label = connected_components(csr_matrix(edges, shape=[lattice.num_vertices] * 2))
    assert count > 3
    seeds = torch.zeros(lattice.num_vertices, dtype=torch.bool)
    seeds[[0, 17]] = True
    expected = np.isin(label, label[seeds.numpy()])
    assert np.array_equal(reached_vertices(lattice, seeds), expected)
