import numpy as np
import pytest
import torch

from permutogeo import ops


def operands(found, channels, dtype=torch.float64):
    lattice = found.lattice
    x = torch.randn(lattice.num_points, channels, dtype=dtype)
    return x, torch.randn(lattice.num_vertices, channels, dtype=dtype)


def test_reference(case, check, dim, dtype, channels):
    found = case(dim, dtype)
    x, values = operands(found, channels, dtype)
    corners = found.in_reference(values)[found.reference.vertex]
    inner = np.einsum("nc,nkc->nk", x.double(), corners)
    expected = np.take_along_axis(inner, found.corner, 1)
    check.close(ops.dot(x, values, found.lattice.vertex, None, None, None), expected)


@pytest.mark.parametrize("side", ["points", "vertices"])
def test_adjoint(case, check, side):
    """Linear in the points and in the values: its transposes are slice and splat."""
    found = case(3)
    vertex, count = found.lattice.vertex, found.lattice.num_vertices
    x, values = operands(found, 5)
    y = torch.randn(vertex.shape, dtype=torch.float64)
    if side == "points":
        check.adjoint(
            lambda x: ops.dot(x, values, vertex, *found.plan),
            x,
            lambda y: ops.slice(values, y, vertex, None, None, None),
            y,
        )
    else:
        check.adjoint(
            lambda values: ops.dot(x, values, vertex, *found.plan),
            values,
            lambda y: ops.splat(x, y, vertex, count, None, None, None),
            y,
        )


def test_gradients(case, check):
    found = case(2, num_points=6)
    vertex = found.lattice.vertex
    check.gradients(lambda x, values: ops.dot(x, values, vertex, *found.plan), *operands(found, 2))


def test_opcheck(case, check):
    found = case(3)
    x, values = operands(found, 5)
    vertex = found.lattice.vertex
    check.registered(
        torch.ops.permutogeo.dot.default,
        (x, values, vertex, None, None, None),
        (x, values, vertex, *found.plan),
        (x.clone().requires_grad_(), values.clone().requires_grad_(), vertex, *found.plan),
        (x[:, :0], values[:, :0], vertex, None, None, None),
    )


def test_compile(case, check):
    found = case(3)
    vertex = found.lattice.vertex
    check.compiles(lambda x, values: ops.dot(x, values, vertex, *found.plan), *operands(found, 5))


def test_empty():
    vertex = torch.empty(0, 3, dtype=torch.int32)
    assert ops.dot(torch.empty(0, 4), torch.empty(5, 4), vertex, None, None, None).shape == (0, 3)


def test_no_channels(case):
    found = case(3)
    out = ops.dot(*operands(found, 0), found.lattice.vertex, None, None, None)
    assert not out.any() and out.shape == found.lattice.vertex.shape


def test_layouts(case, check):
    found = case(3)
    check.layouts(ops.dot, *operands(found, 21), found.lattice.vertex, *found.plan)


def test_unchanged(case, check):
    found = case(3)
    check.unchanged(ops.dot, *operands(found, 21), found.lattice.vertex, *found.plan)
