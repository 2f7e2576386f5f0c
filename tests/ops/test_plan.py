import numpy as np
import pytest
import torch

from permutogeo import ops


def assert_sorted(vertex, num_vertices, order, begin, runs):
    assert len(runs) == 0
    flat = vertex.reshape(-1).numpy()
    np.testing.assert_array_equal(order, np.argsort(flat, kind="stable"))
    np.testing.assert_array_equal(begin, np.searchsorted(np.sort(flat), range(num_vertices + 1)))


def test_reference(case, dim):
    lattice = case(dim, spread=3.0).lattice
    order, begin, _ = ops.plan(lattice.vertex, lattice.num_vertices, None, None)
    assert order.dtype == begin.dtype == torch.int32
    assert_sorted(lattice.vertex, lattice.num_vertices, order, begin, _)


def test_vertices_without_points():
    vertex = torch.tensor([[5, 2], [2, 9]], dtype=torch.int32)
    assert_sorted(vertex, 12, *ops.plan(vertex, 12, None, None))


def test_nothing_where_splatting_makes_private_copies(case):
    lattice = case(2, num_points=1000, spread=0.5).lattice
    order, begin, _ = ops.plan(lattice.vertex, lattice.num_vertices, None, None)
    assert order.numel() == begin.numel() == 0


def test_opcheck(case, check):
    dense, sparse = case(2, num_points=1000, spread=0.5).lattice, case(3).lattice
    check.registered(
        torch.ops.permutogeo.plan.default,
        (dense.vertex, dense.num_vertices, None, None),
        (sparse.vertex, sparse.num_vertices, None, None),
    )


@pytest.mark.parametrize("points", [{"spread": 3.0}, {"num_points": 1000, "spread": 0.3}])
def test_compile(case, check, points):
    lattice = case(3, **points).lattice
    vertex, count = lattice.vertex, lattice.num_vertices

    def splat(x, weight):
        return ops.splat(x, weight, vertex, count, *ops.plan(vertex, count, None, None))

    check.compiles(splat, torch.randn(len(vertex), 3, dtype=torch.float64), lattice.weight)


def test_empty():
    none = torch.empty(0, 3, dtype=torch.int32)
    order, begin, _ = ops.plan(none, 4, None, None)
    assert order.shape == (0,) and begin.tolist() == [0] * 5
    assert all(part.numel() == 0 for part in ops.plan(none, 0, None, None))


def test_layouts(case, check):
    lattice = case(3, spread=3.0).lattice
    check.layouts(ops.plan, lattice.vertex, lattice.num_vertices, None, None)


def test_unchanged(case, check):
    lattice = case(3, spread=3.0).lattice
    check.unchanged(ops.plan, lattice.vertex, lattice.num_vertices, None, None)
