import pytest
import torch
from torch.testing import assert_close

from permutogeo import ops

DOUBLE = torch.float64


def corners(count=30, size=7, dtype=DOUBLE, channels=21, seed=0):
    """Rows, two vertices of each (``size`` where absent), and their order; vertex 3 is empty."""
    generator = torch.Generator().manual_seed(seed)
    vertex = torch.randint(0, size + 1, (count, 2), generator=generator, dtype=torch.int32)
    vertex[vertex == 3] = size
    vertex[:, 1][vertex[:, 0] == vertex[:, 1]] = size
    x = torch.randn(count, channels, generator=generator, dtype=dtype)
    return x, vertex, *ops.vertex_order(vertex, size + 1)


def by_torch(x, vertex, size):
    """The same by torch's own scatter."""
    target = vertex.reshape(-1, 1).long().expand(-1, x.shape[1])
    out = x.new_zeros(size + 1, x.shape[1])
    each = x.repeat_interleave(2, 0)
    return out.scatter_reduce(0, target, each, "amax", include_self=False)[:-1]


@pytest.mark.parametrize("ties", [False, True])
def test_torch(dtype, channels, ties):
    """Values and gradients to the bit, also where rows are equal and where the maximum is 0."""
    x, vertex, *by_vertex = corners(dtype=dtype, channels=channels)
    if ties:
        x = x.round().clamp(max=0)
    x.requires_grad_()
    found, expected = ops.segment_max(x, vertex, *by_vertex), by_torch(x, vertex, 7)
    assert_close(found, expected, rtol=0, atol=0)
    assert not found[3].any()
    grad = torch.randn_like(found)
    pair = (torch.autograd.grad(each, x, grad)[0] for each in (found, expected))
    assert_close(*pair, rtol=0, atol=0)


def test_not_a_number():
    x, *rest = corners()
    x[4] = torch.nan
    assert_close(ops.segment_max(x, *rest), by_torch(x, rest[0], 7), equal_nan=True)


def test_adjoint(check):
    x, *rest = corners()
    most = ops.segment_max(x, *rest)
    y = torch.randn_like(most)
    check.adjoint(
        lambda term: ops.attaining(term, x, most, *rest),
        torch.randn_like(x),
        lambda part: ops.spread(part, x, most, *rest),
        y,
    )


def test_gradients(check):
    x, *rest = corners(count=9, channels=2)
    check.gradients(lambda x: ops.segment_max(x, *rest), x)
    most = ops.segment_max(x, *rest)
    check.gradients(lambda part: ops.spread(part, x, most, *rest), torch.randn_like(most))
    check.gradients(lambda grad: ops.share(grad, x, most, *rest), torch.randn_like(most))


def test_forward_mode():
    x, *rest = corners()
    direction = torch.randn_like(x)
    _, found = torch.func.jvp(lambda x: ops.segment_max(x, *rest), (x,), (direction,))
    step = 1e-6
    expected = (ops.segment_max(x + step * direction, *rest) - ops.segment_max(x, *rest)) / step
    assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_registered(check):
    x, *rest = corners()
    most = ops.segment_max(x, *rest)
    space = torch.ops.permutogeo
    check.registered(space.segment_max.default, (x.clone().requires_grad_(), *rest))
    check.registered(space.attaining.default, (x.clone().requires_grad_(), x, most, *rest))
    check.registered(space.spread.default, (most.clone().requires_grad_(), x, most, *rest))
    check.registered(space.share.default, (most.clone().requires_grad_(), x, most, *rest))
    check.registered(space.vertex_order.default, (rest[0], 8))


def test_layouts(check):
    x, *rest = corners()
    check.layouts(lambda x: ops.segment_max(x, *rest), x)
    check.unchanged(ops.segment_max, x, *rest)


def test_empty():
    vertex = torch.empty(0, 2, dtype=torch.int32)
    assert ops.segment_max(torch.empty(0, 3), vertex, *ops.vertex_order(vertex, 1)).shape == (0, 3)
