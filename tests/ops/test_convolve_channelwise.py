import numpy as np
import pytest
import torch

from permutogeo import ops, stencil
from permutogeo.testing.reference import axis_stencil


@pytest.fixture(params=[True, False], ids=["shared", "depthwise"])
def shared(request) -> bool:
    return request.param


def arguments(found, channels, shared, spec=(1, 1, "full"), dtype=torch.float64):
    neighbors, opposite = found.stencil(*spec)
    values = torch.randn(found.lattice.num_vertices, channels, dtype=dtype)
    filter = torch.randn(neighbors.shape[1], 1 if shared else channels, dtype=dtype)
    return values, filter / len(filter) ** 0.5, neighbors, opposite


def reference(found, values, filter, offsets):
    values = found.in_reference(values)
    if filter.shape[1] == 1:
        out = found.reference.convolve_shared(values, filter[:, 0], offsets)
    else:
        out = found.reference.convolve(values, filter[:, None], offsets, values.shape[1])
    return found.from_reference(out)


def correlation(found, values, grad, offsets, shared):
    padded = np.pad(found.in_reference(values), [(0, 1), (0, 0)])
    gathered = padded[found.reference.neighbors(offsets)]
    out = np.einsum("mkc,mc->kc", gathered, found.in_reference(grad))
    return out.sum(1, keepdims=True) if shared else out


def test_reference(case, check, shared, dim, dtype, channels):
    found = case(dim, dtype, num_points=12)
    args = arguments(found, channels, shared, dtype=dtype)
    expected = reference(found, *args[:2], stencil(dim, 1).numpy())
    check.close(ops.convolve_channelwise(*args), expected)


@pytest.mark.parametrize("channels", [1, 21, 37])
def test_reference_of_the_filter_gradient(case, check, shared, dim, dtype, channels):
    found = case(dim, dtype, num_points=12)
    values, _, *rest = arguments(found, channels, shared, dtype=dtype)
    grad = torch.randn_like(values) / channels
    expected = correlation(found, values, grad, stencil(dim, 1).numpy(), shared)
    check.close(ops.correlate_channelwise(values, grad, *rest, shared), expected)


def test_reference_over_many_runs(case, check, shared):
    """Enough vertices that their products are summed in several parts."""
    found = case(2, num_points=1500, spread=25.0)
    assert found.lattice.num_vertices > 3 * 1024
    values, _, *rest = arguments(found, 5, shared)
    grad = torch.randn_like(values)
    expected = correlation(found, values, grad, stencil(2, 1).numpy(), shared)
    check.close(ops.correlate_channelwise(values, grad, *rest, shared), expected)


@pytest.mark.parametrize(("radius", "dilation"), [(0, 1), (2, 1), (2, 3)])
def test_reference_of_radius_and_dilation(case, check, shared, radius, dilation):
    found = case(2, num_points=60, spread=3.0)
    args = arguments(found, 5, shared, (radius, dilation, "full"))
    expected = reference(found, *args[:2], dilation * stencil(2, radius).numpy())
    check.close(ops.convolve_channelwise(*args), expected)


def test_reference_in_16_dimensions(case, check, shared):
    found = case(16)
    args = arguments(found, 5, shared, (1, 1, "axis"))
    expected = reference(found, *args[:2], axis_stencil(16))
    check.close(ops.convolve_channelwise(*args), expected)


def test_adjoint(case, check, shared):
    values, filter, *rest = arguments(case(3), 5, shared)
    grad = torch.randn_like(values)
    check.adjoint(
        lambda x: ops.convolve_channelwise(x, filter, *rest),
        values,
        lambda y: ops.convolve_channelwise(y, filter[rest[1]], *rest),
        grad,
    )
    check.adjoint(
        lambda f: ops.convolve_channelwise(values, f, *rest),
        filter,
        lambda y: ops.correlate_channelwise(values, y, *rest, shared),
        grad,
    )


def test_gradients(case, check, shared):
    values, filter, *rest = arguments(case(2, num_points=3), 3, shared)
    check.gradients(lambda v, f: ops.convolve_channelwise(v, f, *rest), values, filter)
    check.gradients(
        lambda v, g: ops.correlate_channelwise(v, g, *rest, shared),
        values,
        torch.randn_like(values),
    )


def test_opcheck(case, check, shared):
    for channels in (1, 5):
        values, filter, *rest = arguments(case(2), channels, shared)
        leaf, filter_leaf = values.clone().requires_grad_(), filter.clone().requires_grad_()
        check.registered(
            torch.ops.permutogeo.convolve_channelwise.default,
            (values, filter, *rest),
            (leaf, filter_leaf, *rest),
        )
        check.registered(
            torch.ops.permutogeo.correlate_channelwise.default,
            (values, values + 1, *rest, shared),
            (leaf, values + 1, *rest, shared),
        )


def test_compile(case, check, shared):
    values, filter, *rest = arguments(case(3), 5, shared)
    check.compiles(lambda v, f: ops.convolve_channelwise(v, f, *rest), values, filter)
    check.compiles(
        lambda v, g: ops.correlate_channelwise(v, g, *rest, shared),
        values,
        torch.randn_like(values),
    )


def test_empty(shared):
    neighbors, opposite = torch.empty(0, 7, dtype=torch.int32), torch.arange(7)
    values, filter = torch.empty(0, 4), torch.ones(7, 1 if shared else 4)
    assert ops.convolve_channelwise(values, filter, neighbors, opposite).shape == (0, 4)
    grad = ops.correlate_channelwise(values, values, neighbors, opposite, shared)
    assert grad.shape == filter.shape and not grad.any()


def test_no_channels(case, shared):
    values, filter, *rest = args = arguments(case(2), 0, shared)
    assert ops.convolve_channelwise(*args).shape == values.shape
    grad = ops.correlate_channelwise(values, values, *rest, shared)
    assert grad.shape == filter.shape and not grad.any()


def test_layouts(case, check, shared):
    values, filter, *rest = arguments(case(3), 21, shared)
    check.layouts(ops.convolve_channelwise, values, filter, *rest)
    check.layouts(ops.correlate_channelwise, values, torch.randn_like(values), *rest, shared)


def test_unchanged(case, check, shared):
    values, filter, *rest = arguments(case(3), 21, shared)
    check.unchanged(ops.convolve_channelwise, values, filter, *rest)
    check.unchanged(ops.correlate_channelwise, values, torch.randn_like(values), *rest, shared)


def test_the_lattice_chooses_it_for_as_many_groups_as_channels(case, check):
    found = case(2)
    values, filter, *_ = args = arguments(found, 5, False)
    out = found.lattice.convolve(values, filter[:, None], groups=5)
    assert torch.equal(out, ops.convolve_channelwise(*args))


def test_errors(case):
    lattice = case(2).lattice
    values = torch.zeros(lattice.num_vertices, 4)
    for shape in ((6,), (7, 1), (7, 4, 4)):
        with pytest.raises(ValueError, match=r"Expected 'filter_weight' of shape \[7\] \(got"):
            lattice.convolve(values, torch.zeros(shape), shared=True)
