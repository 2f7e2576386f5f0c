import numpy as np
import pytest
import torch
from torch.testing import assert_close

from permutogeo import get_workspace, ops, set_workspace, stencil
from permutogeo.testing.reference import axis_stencil

SMALL = (1, 1, "axis")


def bank(found, shape, groups=1, spec=(1, 1, "full"), dtype=torch.float64):
    """Arguments of ``convolve`` for input and output channels."""
    neighbors, opposite = found.stencil(*spec)
    values = torch.randn(found.lattice.num_vertices, shape[0], dtype=dtype)
    filter = torch.randn(neighbors.shape[1], shape[0] // groups, shape[1], dtype=dtype)
    return values, filter / len(filter) ** 0.5, neighbors, opposite, groups


def output_like(args):
    return torch.randn(args[0].shape[0], args[1].shape[2], dtype=args[0].dtype)


def correlation(found, values, grad, offsets, groups):
    """``sum_v values[neighbor_k(v)]^T grad[v]`` for each tap and group, from the reference."""
    padded = np.pad(found.in_reference(values), [(0, 1), (0, 0)])
    gathered = padded[found.reference.neighbors(offsets)]
    gathered = gathered.reshape(*gathered.shape[:2], groups, -1)
    grads = found.in_reference(grad).reshape(len(gathered), groups, -1)
    out = np.einsum("mkgi,mgo->kigo", gathered, grads)
    return out.reshape(*out.shape[:2], -1)


@pytest.fixture
def tiny_workspace():
    """So small that every chunk holds one vertex."""
    before = get_workspace()
    set_workspace(1)
    yield
    set_workspace(before)


def test_reference(case, check, dim, dtype, channels):
    found = case(dim, dtype, num_points=12)
    args = bank(found, (channels, 5), dtype=dtype)
    offsets = stencil(dim, 1).numpy()
    expected = found.reference.convolve(found.in_reference(args[0]), args[1], offsets)
    check.close(ops.convolve(*args), found.from_reference(expected))


def test_reference_of_the_filter_gradient(case, check, dim, dtype):
    found = case(dim, dtype, num_points=12)
    values, _, neighbors, opposite, _ = args = bank(found, (21, 3), dtype=dtype)
    grad = output_like(args)
    expected = correlation(found, values, grad, stencil(dim, 1).numpy(), 1)
    check.close(ops.correlate(values, grad, neighbors, opposite, 1), expected)
    both = ops.convolve_backward(values, args[1], grad, neighbors, opposite, 1)
    check.close(both[1], expected)


@pytest.mark.parametrize("channels", [(1, 16), (6, 21), (16, 3)])
def test_all_neighbors_at_once(case, check, channels):
    """One thread gathers the neighbors of a lattice that is neither tiny nor large by one call."""
    values, filter, neighbors, opposite, _ = args = bank(
        case(2, num_points=1500, spread=6.0), channels
    )
    assert neighbors.numel() > 2**12 and (neighbors < 0).any()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        out, grad = ops.convolve(*args), output_like(args)
        correlated = ops.correlate(values, grad, neighbors, opposite, 1)
        grads = ops.convolve_backward(values, filter, grad, neighbors, opposite, 1)
    finally:
        torch.set_num_threads(before)
    leaves = [each.detach().clone().requires_grad_() for each in (values, filter)]
    rows = torch.cat([leaves[0], leaves[0].new_zeros(1, channels[0])])[neighbors.long()]
    expected = torch.einsum("mki,kio->mo", rows, leaves[1])
    check.close(out, expected.detach())
    wanted = torch.autograd.grad(expected, leaves, grad)
    check.close(grads[0], wanted[0])
    check.close(grads[1], wanted[1])
    check.close(correlated, wanted[1])


@pytest.mark.parametrize(("shape", "groups"), [((6, 9), 3), ((4, 4), 4), ((2, 8), 2), ((1, 5), 1)])
def test_reference_of_groups(case, check, shape, groups):
    found, offsets = case(2), stencil(2, 1).numpy()
    values, filter, *rest = args = bank(found, shape, groups)
    expected = found.reference.convolve(found.in_reference(values), filter, offsets, groups)
    check.close(ops.convolve(*args), found.from_reference(expected))
    grad = output_like(args)
    expected = correlation(found, values, grad, offsets, groups)
    check.close(ops.correlate(values, grad, *rest), expected)


@pytest.mark.parametrize(("radius", "dilation"), [(0, 1), (2, 1), (1, 2), (2, 3)])
def test_reference_of_radius_and_dilation(case, check, radius, dilation):
    found = case(2, num_points=60, spread=3.0)
    args = bank(found, (3, 4), spec=(radius, dilation, "full"))
    offsets = dilation * stencil(2, radius).numpy()
    expected = found.reference.convolve(found.in_reference(args[0]), args[1], offsets)
    check.close(ops.convolve(*args), found.from_reference(expected))


def test_reference_in_16_dimensions(case, check):
    found = case(16)
    args = bank(found, (4, 3), spec=SMALL)
    expected = found.reference.convolve(found.in_reference(args[0]), args[1], axis_stencil(16))
    check.close(ops.convolve(*args), found.from_reference(expected))


def test_workspace(case, check, tiny_workspace):
    found = case(2)
    values, filter, *rest = args = bank(found, (6, 4), 2)
    offsets, grad = stencil(2, 1).numpy(), output_like(args)
    expected = found.reference.convolve(found.in_reference(values), filter, offsets, 2)
    check.close(ops.convolve(*args), found.from_reference(expected))
    expected = correlation(found, values, grad, offsets, 2)
    check.close(ops.correlate(values, grad, *rest), expected)


@pytest.mark.parametrize("groups", [1, 2])
def test_adjoint(case, check, groups):
    values, filter, *rest = args = bank(case(3), (4, 6), groups)
    grad = output_like(args)

    def transposed(grad):
        parts = zip(grad.chunk(groups, 1), filter.chunk(groups, 2), strict=True)
        taps = [ops.convolve(g, f.mT[rest[1]], *rest[:2], 1) for g, f in parts]
        return torch.cat(taps, 1)

    check.adjoint(lambda x: ops.convolve(x, filter, *rest), values, transposed, grad)
    both = ops.convolve_backward(values, filter, grad, *rest)
    assert_close(both, (transposed(grad), ops.correlate(values, grad, *rest)))
    check.adjoint(
        lambda f: ops.convolve(values, f, *rest),
        filter,
        lambda y: ops.correlate(values, y, *rest),
        grad,
    )


@pytest.mark.parametrize("groups", [1, 2])
def test_gradients(case, check, groups):
    values, filter, *rest = args = bank(case(2, num_points=3), (4, 2), groups)
    grad = output_like(args)
    check.gradients(lambda v, f: ops.convolve(v, f, *rest), values, filter)
    check.gradients(lambda v, g: ops.correlate(v, g, *rest), values, grad)
    check.gradients(lambda *leaves: ops.convolve_backward(*leaves, *rest), values, filter, grad)


def test_opcheck(case, check):
    found = case(2)
    for args in (bank(found, (3, 4)), bank(found, (6, 4), 2), bank(found, (0, 4))):
        values, filter, *rest = args
        leaves = values.clone().requires_grad_(), filter.clone().requires_grad_()
        check.registered(torch.ops.permutogeo.convolve.default, args, (*leaves, *rest))
        grad = output_like(args).requires_grad_()
        check.registered(torch.ops.permutogeo.correlate.default, (leaves[0], grad, *rest))
        check.registered(torch.ops.permutogeo.convolve_backward.default, (*leaves, grad, *rest))


def test_compile(case, check):
    values, filter, *rest = args = bank(case(3), (6, 4), 2)
    check.compiles(lambda v, f: ops.convolve(v, f, *rest), values, filter)
    check.compiles(lambda v, g: ops.correlate(v, g, *rest), values, output_like(args))
    check.compiles(
        lambda *leaves: ops.convolve_backward(*leaves, *rest)[0], values, filter, output_like(args)
    )


def test_empty():
    neighbors, opposite = torch.empty(0, 7, dtype=torch.int32), torch.arange(7)
    values = torch.empty(0, 4)
    assert ops.convolve(values, torch.ones(7, 4, 3), neighbors, opposite, 1).shape == (0, 3)
    grad = ops.correlate(values, torch.empty(0, 3), neighbors, opposite, 1)
    assert grad.shape == (7, 4, 3) and not grad.any()


def test_no_channels(case):
    for shape in ((0, 4), (4, 0)):
        values, _, *rest = args = bank(case(2), shape)
        out = ops.convolve(*args)
        assert out.shape == (len(values), shape[1]) and not out.any()
        assert ops.correlate(values, out, *rest).shape == (7, *shape)
        both = ops.convolve_backward(*args[:2], out, *rest)
        assert both[0].shape == values.shape and not both[0].any()


def test_layouts(case, check):
    for groups in (1, 2):
        values, filter, *rest = args = bank(case(3), (6, 4), groups)
        check.layouts(ops.convolve, *args)
        check.layouts(ops.correlate, values, output_like(args), *rest)
        check.layouts(ops.convolve_backward, values, filter, output_like(args), *rest)


def test_unchanged(case, check):
    values, filter, *rest = args = bank(case(3), (6, 4), 2)
    check.unchanged(ops.convolve, *args)
    check.unchanged(ops.correlate, values, output_like(args), *rest)
    check.unchanged(ops.convolve_backward, values, filter, output_like(args), *rest)


def test_errors(case):
    lattice = case(2).lattice
    values = torch.zeros(lattice.num_vertices, 4)
    for shape, expected in [((6, 4, 3), r"\[7, 4, C_out\]"), ((7, 3, 3), r"\[7, 4, C_out\]")]:
        with pytest.raises(ValueError, match=rf"'filter_weight' of shape {expected} \(got"):
            lattice.convolve(values, torch.zeros(shape))
    with pytest.raises(ValueError, match=r"'groups' to divide the 4 channels \(got 3\)"):
        lattice.convolve(values, torch.zeros(7, 1, 3), groups=3)
    with pytest.raises(ValueError, match=r"'groups' to divide the 3 output channels \(got 2\)"):
        lattice.convolve(values, torch.zeros(7, 2, 3), groups=2)
    with pytest.raises(TypeError, match=r"'filter_weight' to be a floating-point .*int64"):
        lattice.convolve(values, torch.zeros(7, 4, 3, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"Expected 'values' of shape"):
        lattice.convolve(values[1:], torch.zeros(7, 4, 3))
    for size in (0, -1, 1.5):
        with pytest.raises(ValueError, match="Expected a positive number of bytes"):
            set_workspace(size)
