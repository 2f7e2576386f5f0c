"""Geometry of the oracle: hand-computed values."""

import numpy as np
import pytest

from permutogeo.testing import geometry


def test_axes_sum_to_zero():
    assert geometry.axes(2).tolist() == [[2, -1, -1], [-1, 2, -1], [-1, -1, 2]]


@pytest.mark.parametrize(("dim", "radius", "count"), [(1, 1, 3), (2, 1, 7), (2, 2, 19), (3, 1, 15)])
def test_stencil_counts(dim, radius, count):
    offsets = geometry.stencil(dim, radius)
    assert len(offsets) == len({tuple(row) for row in offsets.tolist()}) == count
    assert not offsets[0].any() and not offsets.sum(1).any()


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_barycentric_weights_recover_the_point(dim):
    feature = np.random.default_rng(0).normal(size=(50, dim)) * 5
    key, weight = geometry.embed(feature)
    assert (weight >= 0).all()
    np.testing.assert_allclose(weight.sum(1), 1)
    recovered = np.einsum("nk,nkj->nj", weight, key)
    np.testing.assert_allclose(recovered, geometry.elevate(feature), atol=1e-9)
    assert (key % (dim + 1) == np.arange(dim + 1)[:, None]).all()


def test_gaussian_stencil_in_one_dimension():
    assert geometry.gaussian_stencil(1, 1).tolist() == pytest.approx([1, 2 / 3, 2 / 3])
