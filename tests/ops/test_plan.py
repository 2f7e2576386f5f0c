import sys

import numpy as np
import pytest
import torch

from permutogeo import Lattice, ops


def assert_sorted(vertex, num_vertices, order, begin, runs):
    assert len(runs) == 0
    flat = vertex.reshape(-1).numpy()
    np.testing.assert_array_equal(order, np.argsort(flat, kind="stable"))
    np.testing.assert_array_equal(begin, np.searchsorted(np.sort(flat), range(num_vertices + 1)))


def test_reference(case, dim):
    lattice = case(dim, spread=3.0).lattice
    order, begin, _ = ops.splat_plan(lattice.vertex, lattice.num_vertices, None, None, True)
    assert order.dtype == begin.dtype == torch.int32
    assert_sorted(lattice.vertex, lattice.num_vertices, order, begin, _)


def test_vertices_without_points():
    vertex = torch.tensor([[5, 2], [2, 9]], dtype=torch.int32)
    assert_sorted(vertex, 12, *ops.splat_plan(vertex, 12, None, None, True))


@pytest.mark.parametrize("threads", [1, 3])
def test_several_runs_sort_as_one(threads):
    before = torch.get_num_threads()
    generator = torch.Generator().manual_seed(0)
    vertex = torch.randint(6000, (20_000, 3), generator=generator, dtype=torch.int32)
    try:
        torch.set_num_threads(threads)
        assert_sorted(vertex, 6000, *ops.splat_plan(vertex, 6000, None, None, True))
    finally:
        torch.set_num_threads(before)


def test_nothing_where_splatting_makes_private_copies(case):
    lattice = case(2, num_points=2000, spread=0.5).lattice
    order, begin, _ = ops.splat_plan(lattice.vertex, lattice.num_vertices, None, None, True)
    assert order.numel() == begin.numel() == 0


def test_opcheck(case, check):
    dense, sparse = case(2, num_points=2000, spread=0.5).lattice, case(3).lattice
    check.registered(
        torch.ops.permutogeo.splat_plan.default,
        (dense.vertex, dense.num_vertices, None, None, True),
        (sparse.vertex, sparse.num_vertices, None, None, True),
    )


@pytest.mark.parametrize("points", [{"spread": 3.0}, {"num_points": 2000, "spread": 0.3}])
def test_compile(case, check, points):
    lattice = case(3, **points).lattice
    vertex, count = lattice.vertex, lattice.num_vertices

    def splat(x, weight):
        return ops.splat(x, weight, vertex, count, *ops.splat_plan(vertex, count, None, None, True))

    check.compiles(splat, torch.randn(len(vertex), 3, dtype=torch.float64), lattice.weight)


def test_empty():
    none = torch.empty(0, 3, dtype=torch.int32)
    order, begin, _ = ops.splat_plan(none, 4, None, None, True)
    assert order.shape == (0,) and begin.tolist() == [0] * 5
    order, begin, runs = ops.splat_plan(none, 0, None, None, True)
    assert order.numel() == runs.numel() == 0 and begin.tolist() == [0]


def test_layouts(case, check):
    lattice = case(3, spread=3.0).lattice
    check.layouts(ops.splat_plan, lattice.vertex, lattice.num_vertices, None, None, True)


def test_unchanged(case, check):
    lattice = case(3, spread=3.0).lattice
    check.unchanged(ops.splat_plan, lattice.vertex, lattice.num_vertices, None, None, True)


def test_runs_of_a_graph_do_not_depend_on_the_others(case):
    """Each graph is cut as it would be alone, and its copies come in the same order."""
    lattice = case(2, num_points=4000, spread=0.4).lattice
    batch, vertex_batch = lattice.incidence.graphs
    _, _, runs = ops.splat_plan(lattice.vertex, lattice.num_vertices, batch, vertex_batch, True)
    for graph in (0, 1):
        points = (batch == graph).nonzero()[:, 0]
        first, last = int(points[0]), int(points[-1]) + 1
        base = int((vertex_batch < graph).sum())
        alone = lattice.vertex[first:last] - base
        _, _, expected = ops.splat_plan(alone, int((vertex_batch == graph).sum()), None, None, True)
        mine = runs[(runs[:, 1] >= first) & (runs[:, 2] <= last)]
        assert len(expected) > 1
        assert torch.equal(
            mine, expected + torch.tensor([0, first, first, base, base], dtype=torch.int32)
        )


def test_a_dense_graph_beside_a_sparse_one(case):
    """Only the dense graph is copied, and both get the bits that they get alone."""
    sparse, dense = 300 * torch.rand(2000, 2), 0.5 * torch.rand(4000, 2)
    batch = torch.arange(6000) // 2000 > 0
    both = Lattice.build(torch.cat([sparse, dense]), batch.long())
    x = torch.rand(6000, 3)
    runs = both.incidence.splat_plan(sort=True)[2]
    rows = int((runs[:, 4] - runs[:, 3]).sum())
    assert int(runs[:, 0].max()) == 7 and rows < 1.1 * both.num_vertices
    alone = [Lattice.build(part).splat(y) for part, y in [(sparse, x[:2000]), (dense, x[2000:])]]
    assert torch.equal(both.splat(x), torch.cat(alone))


def test_an_unsorted_batch_is_summed_by_vertex(case):
    lattice = case(2, num_points=2000, spread=0.4).lattice
    batch, vertex_batch = lattice.incidence.graphs
    shuffled = torch.randperm(2000)
    order, begin, runs = ops.splat_plan(
        lattice.vertex[shuffled], lattice.num_vertices, batch[shuffled], vertex_batch, True
    )
    assert_sorted(lattice.vertex[shuffled], lattice.num_vertices, order, begin, runs)


def test_sorting_as_on_cuda_gives_the_same(case):
    """The GPU branch, run on the CPU: a stable sort in place of counting."""
    plan = sys.modules["permutogeo.ops.plan"]
    lattice = case(3, spread=3.0).lattice
    flat = lattice.vertex.reshape(-1)
    counted, ordered = (sort(flat, lattice.num_vertices) for sort in (plan._count, plan._sort))
    for one, other in zip(counted, ordered, strict=True):
        assert one.dtype == other.dtype and torch.equal(one, other)
