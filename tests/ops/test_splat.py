import pytest
import torch
from torch.testing import assert_close

from permutogeo import ops

# Few points to a vertex are summed by vertex, many into private copies of the values.
FORMS = {
    "by_vertex": {"num_points": 60, "spread": 3.0},
    "copies": {"num_points": 2000, "spread": 0.3},
}


@pytest.fixture(params=FORMS)
def points(request, case):
    """A lattice in three dimensions for each of the two forms."""
    found = case(3, **FORMS[request.param])
    assert (found.plan[1].numel() == 0) == (request.param == "copies")
    return found


def arguments(found, x, planned=True):
    rest = found.plan if planned else (None, None, None)
    return x, found.lattice.weight, found.lattice.vertex, found.lattice.num_vertices, *rest


def test_reference(case, check, dim, dtype, channels):
    found = case(dim, dtype)
    x = torch.randn(found.lattice.num_points, channels, dtype=dtype)
    expected = found.from_reference(found.reference.splat(x))
    check.close(ops.splat(*arguments(found, x)), expected)
    check.close(ops.splat(*arguments(found, x, planned=False)), expected)


def test_reference_of_private_copies(case, check, dtype, channels):
    found = case(2, dtype, num_points=2000, spread=0.5)
    x = torch.randn(2000, channels, dtype=dtype)
    assert found.plan[1].numel() == 0
    check.close(ops.splat(*arguments(found, x)), found.from_reference(found.reference.splat(x)))


def test_reference_in_16_dimensions(case, check):
    found = case(16)
    x = torch.randn(found.lattice.num_points, 5, dtype=torch.float64)
    expected = found.from_reference(found.reference.splat(x))
    check.close(ops.splat(*arguments(found, x)), expected)


def test_adjoint(points, check):
    lattice = points.lattice
    x = torch.randn(lattice.num_points, 3, dtype=torch.float64)
    values = torch.randn(lattice.num_vertices, 3, dtype=torch.float64)
    check.adjoint(
        lambda x: ops.splat(*arguments(points, x)),
        x,
        lambda y: ops.slice(y, *points.incidence, None, None, None),
        values,
    )


@pytest.mark.parametrize(("num_points", "spread"), [(6, 1.5), (40, 0.01)])
def test_gradients(case, check, num_points, spread):
    found = case(2, num_points=num_points, spread=spread)
    vertex, count = found.lattice.vertex, found.lattice.num_vertices
    x = torch.randn(num_points, 2, dtype=torch.float64)
    check.gradients(
        lambda x, weight: ops.splat(x, weight, vertex, count, *found.plan),
        x,
        found.lattice.weight,
    )


def test_opcheck(points, check):
    x = torch.randn(points.lattice.num_points, 5, dtype=torch.float64)
    with_grad = arguments(points, x.clone().requires_grad_())
    check.registered(
        torch.ops.permutogeo.splat.default,
        arguments(points, x),
        arguments(points, x, planned=False),
        with_grad,
        arguments(points, x[:, :0]),
    )


def test_compile(points, check):
    _, weight, vertex, count, *plan = arguments(points, None)
    x = torch.randn(points.lattice.num_points, 5, dtype=torch.float64)
    check.compiles(lambda x, w: ops.splat(x, w, vertex, count, *plan), x, weight)


def test_empty():
    weight, vertex = torch.empty(0, 3), torch.empty(0, 3, dtype=torch.int32)
    assert ops.splat(torch.empty(0, 4), weight, vertex, 0, None, None, None).shape == (0, 4)
    out = ops.splat(torch.empty(0, 4), weight, vertex, 5, None, None, None)
    assert_close(out, torch.zeros(5, 4))


def test_no_channels(points):
    x = torch.empty(points.lattice.num_points, 0, dtype=torch.float64)
    assert ops.splat(*arguments(points, x)).shape == (points.lattice.num_vertices, 0)


def test_layouts(points, check):
    x = torch.randn(points.lattice.num_points, 21, dtype=torch.float64)
    check.layouts(ops.splat, *arguments(points, x))


def test_unchanged(points, check):
    x = torch.randn(points.lattice.num_points, 21, dtype=torch.float64)
    check.unchanged(ops.splat, *arguments(points, x))


def test_errors(case):
    lattice = case(2).lattice
    with pytest.raises(ValueError, match=r"Expected 'x' of shape \[40, C\].*got \[39, 2\]"):
        lattice.splat(torch.zeros(39, 2))
    with pytest.raises(ValueError, match=r"Expected 'x' of shape \[40, C\].*got \[40\]"):
        lattice.splat(torch.zeros(40))
    with pytest.raises(TypeError, match=r"Expected 'x' of a floating-point type .*int64"):
        lattice.splat(torch.zeros(40, 2, dtype=torch.int64))
    with pytest.raises(TypeError, match=r"Expected 'x' to be a tensor .*list"):
        lattice.splat([[0.0]] * 40)


def test_forms_agree_to_the_bit(case):
    """One copy adds in the order of the points, as the sum by vertex does."""
    lattice = case(3, torch.float32).lattice
    x = torch.randn(lattice.num_points, 5)
    one_run = torch.tensor([[0, 0, len(x), 0, lattice.num_vertices]], dtype=torch.int32)
    arguments = (x, lattice.weight, lattice.vertex, lattice.num_vertices)
    none = torch.empty(0, dtype=torch.int32)
    assert torch.equal(ops.splat(*arguments, none, none, one_run), lattice.splat(x))
