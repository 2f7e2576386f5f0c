import pytest
import torch
from torch.testing import assert_close

from permutogeo import ops
from permutogeo.runtime import memory


def random_values(found, channels, dtype=torch.float64):
    return torch.randn(found.lattice.num_vertices, channels, dtype=dtype)


def test_reference(case, check, dim, dtype, channels):
    found = case(dim, dtype)
    values = random_values(found, channels, dtype)
    expected = found.reference.slice(found.in_reference(values))
    check.close(ops.slice(values, *found.incidence, None, None, None), expected)


def test_reference_in_16_dimensions(case, check):
    found = case(16)
    values = random_values(found, 5)
    expected = found.reference.slice(found.in_reference(values))
    check.close(ops.slice(values, *found.incidence, *found.plan), expected)


@pytest.mark.parametrize("channels", [1, 21, 40])
def test_prefetching_changes_nothing(case, channels, monkeypatch):
    """Of values that exceed the cache, rows are fetched ahead; to the end of the points."""
    found = case(3, torch.float32)
    x, values = (
        torch.randn(len(found.lattice.vertex), channels),
        random_values(found, channels).float(),
    )

    def call():
        unsorted = found.lattice.incidence.splat_plan(sort=False)
        vertices = found.lattice.num_vertices
        return (
            ops.slice(values, *found.incidence, *found.plan),
            ops.dot(x, values, found.lattice.vertex, *found.plan),
            ops.splat(x, *found.incidence, vertices, *found.plan),
            ops.splat(x, *found.incidence, vertices, *unsorted),
        )

    expected = call()
    monkeypatch.setattr(memory, "_CACHE_BYTES", 0)
    assert all(map(torch.equal, call(), expected))


@pytest.mark.parametrize("dim", [1, 3, 8])
def test_reference_at_other_points(case, check, dim):
    """Corners that are not on the lattice read 0."""
    found = case(dim)
    values = random_values(found, 5)
    other = 2 * torch.randn(50, dim, dtype=torch.float64)
    batch = torch.randint(0, 3, (50,))
    at = found.lattice.locate(other, batch)
    expected = found.reference.slice(
        found.in_reference(values), found.reference.locate(other, batch)
    )
    assert (at.vertex < 0).any()
    check.close(at.slice(values), expected)


@pytest.mark.parametrize("planned", [False, True])
def test_adjoint(case, check, planned):
    found = case(3)
    rest = found.plan if planned else (None, None, None)
    y = torch.randn(found.lattice.num_points, 3, dtype=torch.float64)
    check.adjoint(
        lambda values: ops.slice(values, *found.incidence, *rest),
        random_values(found, 3),
        lambda y: ops.splat(y, *found.incidence, found.lattice.num_vertices, None, None, None),
        y,
    )


@pytest.mark.parametrize(("num_points", "spread"), [(6, 1.5), (40, 0.01)])
def test_gradients(case, check, num_points, spread):
    found = case(2, num_points=num_points, spread=spread)
    vertex = found.lattice.vertex
    check.gradients(
        lambda values, weight: ops.slice(values, weight, vertex, *found.plan),
        random_values(found, 2),
        found.lattice.weight,
    )


def test_opcheck(case, check):
    found = case(3)
    values = random_values(found, 5)
    check.registered(
        torch.ops.permutogeo.slice.default,
        (values, *found.incidence, None, None, None),
        (values, *found.incidence, *found.plan),
        (values.clone().requires_grad_(), *found.incidence, *found.plan),
        (values[:, :0], *found.incidence, None, None, None),
    )


def test_compile(case, check):
    found = case(3)
    vertex = found.lattice.vertex
    check.compiles(
        lambda values, weight: ops.slice(values, weight, vertex, *found.plan),
        random_values(found, 5),
        found.lattice.weight,
    )


def test_empty():
    weight, vertex = torch.empty(0, 3), torch.empty(0, 3, dtype=torch.int32)
    for count in (0, 5):
        assert ops.slice(torch.ones(count, 4), weight, vertex, None, None, None).shape == (0, 4)


def test_no_channels(case):
    found = case(3)
    out = ops.slice(random_values(found, 0), *found.incidence, None, None, None)
    assert out.shape == (found.lattice.num_points, 0)


def test_layouts(case, check):
    found = case(3)
    check.layouts(ops.slice, random_values(found, 21), *found.incidence, *found.plan)


def test_unchanged(case, check):
    found = case(3)
    check.unchanged(ops.slice, random_values(found, 21), *found.incidence, *found.plan)


def test_a_constant_stays_constant(case, dim):
    found = case(dim)
    values = torch.full((found.lattice.num_vertices, 2), 3.0, dtype=torch.float64)
    out = ops.slice(values, *found.incidence, None, None, None)
    assert_close(out, torch.full_like(out, 3.0))


def test_errors(case):
    lattice = case(2).lattice
    count = lattice.num_vertices
    with pytest.raises(ValueError, match=rf"Expected 'values' of shape \[{count}, C\].*got \[3, 2"):
        lattice.slice(torch.zeros(3, 2))
    with pytest.raises(TypeError, match=r"Expected 'values' of a floating-point type .*int32"):
        lattice.slice(torch.zeros(count, 2, dtype=torch.int32))
    with pytest.raises(TypeError, match=r"Expected 'at' to be an Incidence .*tuple"):
        lattice.slice(torch.zeros(count, 2), at=(lattice.vertex, lattice.weight))
    other = case(3).lattice
    with pytest.raises(ValueError, match=f"Expected 'at' on the lattice of {count} vertices"):
        lattice.slice(torch.zeros(count, 2), at=other.incidence)
