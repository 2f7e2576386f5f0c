"""The map from features to grid coordinates against the oracle's elevation."""

import numpy as np
import pytest

from permutogeo.kernels import simplex
from permutogeo.testing import geometry


@pytest.mark.parametrize("variance", [0.5, 0.2])
@pytest.mark.parametrize("dim", [1, 2, 3, 8])
def test_elevation_matrix(dim, variance):
    elevated = geometry.elevate(np.eye(dim), variance)
    grid = (elevated[:, :-1] - elevated[:, -1:]) / (dim + 1)
    np.testing.assert_allclose(simplex.elevation_matrix(dim, variance), grid.T, atol=1e-12)


@pytest.mark.parametrize("dim", [1, 2, 3, 8])
def test_coefficients_give_the_matrix(dim):
    scale, subdiagonal = simplex.elevation(dim, 0.5)
    assert len(scale) == len(subdiagonal) == dim
    feature = np.random.default_rng(0).normal(size=dim)
    u = [sum(scale[i] * feature[i] for i in range(j, dim)) for j in range(dim)]
    u = [u[j] - (subdiagonal[j] * feature[j - 1] if j else 0.0) for j in range(dim)]
    u = np.array(u) + subdiagonal[0] * feature[-1]
    np.testing.assert_allclose(u, simplex.elevation_matrix(dim, 0.5) @ feature, atol=1e-12)
