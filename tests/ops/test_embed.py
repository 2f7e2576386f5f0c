"""The derivative of the weights in the features, and its transpose."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from permutogeo import Lattice, ops
from permutogeo.testing.reference import embed


def points(found):
    """Features of a case and a direction for each."""
    return found.lattice.feature, torch.randn_like(found.lattice.feature)


def test_reference_of_tangent(case, check, dim, dtype):
    """Weights are piecewise linear: a difference inside the simplex is exact."""
    found = case(dim, dtype)
    feature, direction = points(found)
    step = 1e-6 * direction.double()
    (below, low), (above, high) = (embed(feature.double() + s) for s in (-step, step))
    assert (below == above).all()
    expected = np.take_along_axis((high - low) / 2e-6, found.corner, 1)
    out = ops.embed_tangent(direction, feature, 0.5)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


def test_reference_of_the_scale(case):
    """Weights scale with the square root of 1/6 + tap variance, inside the same simplex."""
    feature = 1e-3 * torch.rand(20, 3, dtype=torch.float64)
    direction = torch.randn_like(feature)
    narrow, wide = (ops.embed_tangent(direction, feature, v) for v in (0.5, 2.5))
    assert_close(wide, 2 * narrow)


def test_adjoint(case, check, dim, dtype):
    feature, direction = points(case(dim, dtype))
    check.adjoint(
        lambda x: ops.embed_tangent(x, feature, 0.5),
        direction,
        lambda y: ops.embed_adjoint(y, feature, 0.5),
        torch.randn(len(feature), dim + 1, dtype=dtype),
    )


def test_adjoint_of_adjoint(case, check, dim):
    feature, direction = points(case(dim))
    check.adjoint(
        lambda y: ops.embed_adjoint(y, feature, 0.5),
        torch.randn(len(feature), dim + 1, dtype=torch.float64),
        lambda x: ops.embed_tangent(x, feature, 0.5),
        direction,
    )


def test_gradients(case, check):
    feature, direction = points(case(3, num_points=6))
    grad = torch.randn(6, 4, dtype=torch.float64)
    check.gradients(lambda x: ops.embed_tangent(x, feature, 0.5), direction)
    check.gradients(lambda y: ops.embed_adjoint(y, feature, 0.5), grad)


def test_gradients_in_the_features_are_zero(case, check):
    feature, direction = points(case(3, num_points=6))
    grad = torch.randn(6, 4, dtype=torch.float64)
    check.gradients(lambda x, f: ops.embed_tangent(x, f, 0.5), direction, feature)
    check.gradients(lambda y, f: ops.embed_adjoint(y, f, 0.5), grad, feature)


def test_opcheck(case, check):
    feature, direction = points(case(3))
    grad = torch.randn(len(feature), 4, dtype=torch.float64)
    tangent, adjoint = torch.ops.permutogeo.embed_tangent, torch.ops.permutogeo.embed_adjoint
    leaf = feature.clone().requires_grad_()
    check.registered(
        tangent.default,
        (direction, feature, 0.5),
        (direction.clone().requires_grad_(), leaf, 1.0),
    )
    check.registered(
        adjoint.default, (grad, feature, 0.5), (grad.clone().requires_grad_(), leaf, 1.0)
    )


def test_compile(case, check):
    feature, direction = points(case(3))
    grad = torch.randn(len(feature), 4, dtype=torch.float64)
    check.compiles(lambda x: ops.embed_tangent(x, feature, 0.5), direction)
    check.compiles(lambda y: ops.embed_adjoint(y, feature, 0.5), grad)


def test_empty(dim):
    feature, grad = torch.empty(0, dim), torch.empty(0, dim + 1)
    assert ops.embed_tangent(feature, feature, 0.5).shape == grad.shape
    assert ops.embed_adjoint(grad, feature, 0.5).shape == feature.shape


def test_layouts(case, check):
    feature, direction = points(case(3))
    grad = torch.randn(len(feature), 4, dtype=torch.float64)
    check.layouts(ops.embed_tangent, direction, feature, 0.5)
    check.layouts(ops.embed_adjoint, grad, feature, 0.5)


def test_unchanged(case, check):
    feature, direction = points(case(3))
    grad = torch.randn(len(feature), 4, dtype=torch.float64)
    check.unchanged(ops.embed_tangent, direction, feature, 0.5)
    check.unchanged(ops.embed_adjoint, grad, feature, 0.5)


@pytest.mark.parametrize("value", [1.7e308, -1.7e308])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_features_near_the_largest_number(dim, value):
    feature = torch.zeros(3, dim, dtype=torch.float64)
    feature[1] = value
    message = r"^Expected 'feature' whose lattice keys fit 32 bits .* in row 1, which needs inf\)"
    with pytest.raises(ValueError, match=message):
        Lattice.build(feature)
    with pytest.raises(ValueError, match=message):
        Lattice.build(torch.zeros_like(feature)).locate(feature)
