import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.autograd import gradcheck

import permutogeo as pg
from permutogeo import Incidence, Lattice, ops

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def located(dtype=torch.float64, requires_grad=False):
    """A lattice over eight points, and forty others of which some miss it."""
    lattice = Lattice.build(torch.rand(8, 2, dtype=dtype) * 3)
    other = (torch.rand(40, 2, dtype=dtype) * 6 - 1).requires_grad_(requires_grad)
    return lattice, other, lattice.locate(other)


def test_fields():
    lattice, other, at = located()
    assert isinstance(at, Incidence)
    assert pg.Incidence is Incidence
    assert at.vertex.shape == at.weight.shape == (40, 3)
    assert at.vertex.dtype == torch.int32
    assert at.weight.dtype == other.dtype
    assert at.num_vertices == lattice.num_vertices
    assert at.num_points == 40
    assert (at.vertex < 0).any() and (at.vertex >= 0).any()


def test_frozen():
    _, _, at = located()
    with pytest.raises(dataclasses.FrozenInstanceError):
        at.vertex = at.vertex + 1


def test_absent_corners_read_zero():
    lattice, _, at = located()
    values = torch.randn(lattice.num_vertices, 3, dtype=torch.float64)
    padded = torch.cat([values, values.new_zeros(1, 3)])
    expected = (at.weight.unsqueeze(-1) * padded[at.vertex.long()]).sum(1)
    torch.testing.assert_close(at.slice(values), expected)
    torch.testing.assert_close(lattice.slice(values, at=at), expected)
    nowhere = (at.vertex < 0).all(1)
    assert nowhere.any() and not at.slice(values)[nowhere].any()


def test_absent_corners_do_not_spread_what_is_not_finite():
    """A value that no corner of a point touches must not reach it, not even as 0 times inf."""
    lattice = Lattice.build(torch.rand(30, 2))
    at = lattice.locate(torch.full((4, 2), 1000.0))
    values = torch.full((lattice.num_vertices, 2), torch.inf)
    assert (at.vertex < 0).all()
    assert torch.equal(at.slice(values), torch.zeros(4, 2))
    splat = at.splat(torch.full((4, 2), torch.nan))
    assert torch.equal(splat, torch.zeros_like(splat))


def test_splat_is_the_transpose_of_slice():
    lattice, _, at = located()
    x = torch.randn(40, 3, dtype=torch.float64)
    values = torch.randn(lattice.num_vertices, 3, dtype=torch.float64)
    torch.testing.assert_close((at.splat(x) * values).sum(), (x * at.slice(values)).sum())
    torch.testing.assert_close(lattice.splat(x, at=at), at.splat(x))


def test_plans_are_computed_once():
    lattice = Lattice.build(torch.rand(50, 2) * 20)
    one_run = [[0, 0, 50, 0, lattice.num_vertices]]
    assert lattice.incidence.splat_plan(sort=False)[2].tolist() == one_run
    order, begin, runs = lattice.incidence.splat_plan(sort=True)
    assert len(runs) == 0
    assert lattice.incidence.splat_plan(sort=True)[0] is order
    assert lattice.incidence.splat_plan(sort=True)[1] is begin
    assert lattice.incidence.splat_plan(sort=False)[2].tolist() == one_run
    flat = lattice.vertex.view(-1)[order.long()]
    assert torch.equal(flat, flat.sort()[0])
    counts = torch.bincount(lattice.vertex.view(-1), minlength=lattice.num_vertices)
    assert torch.equal(begin.diff().long(), counts)


@pytest.mark.parametrize(
    ("points", "threads", "plans"),
    [(50, 4, [False]), (4000, 1, [False]), (4000, 4, [False, True])],
)
def test_corners_are_sorted_where_it_pays(monkeypatch, points, threads, plans):
    """A first splat, one of few points or on few threads is faster without; all have the same
    bits."""
    lattice = Lattice.build(torch.rand(points, 2) * 3 * points**0.5)
    x = torch.rand(points, 3)
    sorts, plan = [], ops.splat_plan
    monkeypatch.setattr(ops, "splat_plan", lambda *args: sorts.append(args[-1]) or plan(*args))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        first, second, third = (lattice.splat(x) for _ in range(3))
    finally:
        torch.set_num_threads(before)
    assert sorts == plans
    assert torch.equal(first, second) and torch.equal(first, third)


def test_with_weight():
    lattice, _, at = located()
    weight = torch.randn(40, 3, dtype=torch.float64, requires_grad=True)
    other = at.with_weight(weight)
    fresh = Incidence(at.vertex, weight, at.num_vertices)
    values = torch.randn(lattice.num_vertices, 2, dtype=torch.float64)
    x = torch.randn(40, 2, dtype=torch.float64)
    assert torch.equal(other.slice(values), fresh.slice(values))
    assert torch.equal(other.splat(x), fresh.splat(x))
    assert other.splat(x).ne(at.splat(x)).any() and at.weight is not weight
    gradcheck(lambda w: at.with_weight(w).slice(values), (weight,))
    gradcheck(lambda w: at.with_weight(w).splat(x), (weight,))


def test_with_weight_keeps_the_plan():
    lattice = Lattice.build(torch.rand(50, 2) * 20, torch.arange(50) // 25)
    points = lattice.incidence
    other = points.with_weight(torch.rand(50, 3))
    assert all(a is b for a, b in zip(other.splat_plan(True), points.splat_plan(True), strict=True))
    assert other.graphs is points.graphs and other.complete


@pytest.mark.parametrize("shape", [(40, 2), (39, 3), (120,), (40, 3, 1)])
def test_with_weight_of_another_shape(shape):
    _, _, at = located()
    got = str(list(shape)).replace("[", r"\[")
    with pytest.raises(ValueError, match=rf"'weight' of shape \[40, 3\] \(got {got}\)"):
        at.with_weight(torch.rand(shape))


@pytest.mark.parametrize("complete", [False, True])
def test_edges(complete):
    lattice, _, at = located()
    at = lattice.incidence if complete else at
    edge_index, edge_weight = at.edges()
    dense = torch.zeros(at.num_points, at.num_vertices, dtype=torch.float64)
    dense.index_put_(tuple(edge_index), edge_weight, accumulate=True)
    assert (edge_index.shape[1] == at.vertex.numel()) == complete
    torch.testing.assert_close(dense, at.slice(torch.eye(at.num_vertices, dtype=torch.float64)))


@pytest.mark.parametrize("graphs", [None, 2])
def test_split(graphs):
    batch = None if graphs is None else torch.arange(30) % graphs
    whole = Lattice.build(torch.rand(30, 2) * 9, batch).incidence
    parts = whole.split([12, 0, 18])
    assert [part.num_points for part in parts] == [12, 0, 18]
    values = torch.randn(whole.num_vertices, 2)
    assert torch.equal(torch.cat([part.slice(values) for part in parts]), whole.slice(values))
    for part in parts:
        assert part.complete and (part.graphs is None) == (graphs is None)


def test_nothing_is_changed_in_place():
    lattice, _, at = located()
    x, values = torch.randn(40, 2), torch.randn(lattice.num_vertices, 2)
    before = [t.clone() for t in (x, values, at.vertex, at.weight)]
    at.splat(x), at.slice(values)
    for old, new in zip(before, (x, values, at.vertex, at.weight), strict=True):
        assert torch.equal(old, new)


def test_to():
    lattice, _, at = located()
    moved = at.to("cpu")
    values = torch.randn(lattice.num_vertices, 2)
    assert moved is not at
    assert torch.equal(moved.vertex, at.vertex)
    assert torch.equal(moved.slice(values), at.slice(values))
    assert lattice.incidence.to("cpu").complete


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_values_keep_their_type(dtype):
    _, _, at = located(torch.float32)
    x = torch.rand(40, 3).to(dtype)
    values = at.splat(x)
    assert values.dtype == dtype
    assert at.slice(values).dtype == dtype
    torch.testing.assert_close(values.float(), at.splat(x.float()), rtol=1e-2, atol=1e-2)


def test_gradient_in_weights_at_other_points():
    lattice = Lattice.build(torch.rand(8, 2, dtype=torch.float64) * 3)
    values = torch.randn(lattice.num_vertices, 2, dtype=torch.float64, requires_grad=True)
    x = torch.randn(10, 2, dtype=torch.float64, requires_grad=True)
    other = (torch.rand(10, 2, dtype=torch.float64) * 4).requires_grad_()
    assert gradcheck(lambda v, f: lattice.slice(v, at=lattice.locate(f)), (values, other))
    assert gradcheck(lambda v, f: lattice.splat(v, at=lattice.locate(f)), (x, other))


def test_first_use_without_gradients_does_not_lose_them():
    lattice, other, at = located(requires_grad=True)
    values = torch.randn(lattice.num_vertices, 1, dtype=torch.float64)
    with torch.no_grad():
        lattice.slice(values, at=at)
    lattice.slice(values, at=at).sum().backward()
    assert other.grad.abs().sum() > 0


def test_empty():
    lattice, _, _ = located(torch.float32)
    at = lattice.locate(torch.empty(0, 2))
    assert at.num_points == 0
    assert at.slice(torch.ones(lattice.num_vertices, 2)).shape == (0, 2)
    assert torch.equal(at.splat(torch.ones(0, 2)), torch.zeros(lattice.num_vertices, 2))


EMPTY_LATTICE = """
import torch
from permutogeo import Lattice

nothing = Lattice.build(torch.empty(0, 2))
at = nothing.locate(torch.rand(5, 2))
assert (at.vertex == -1).all()
assert torch.equal(at.slice(torch.ones(0, 3)), torch.zeros(5, 3))
assert at.splat(torch.ones(5, 3)).shape == (0, 3)
"""


def test_points_on_an_empty_lattice(tmp_path):
    """In a process of its own: what reads past the end of nothing may take the process with it."""
    done = subprocess.run([sys.executable, "-c", EMPTY_LATTICE], env=ENVIRONMENT, cwd=tmp_path)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda at: at.splat([1.0]), TypeError, r"'x' to be a tensor \(got list\)"),
        (
            lambda at: at.splat(torch.ones(39, 1)),
            ValueError,
            r"'x' of shape \[40, C\].* 40 points \(got \[39, 1\]\)",
        ),
        (lambda at: at.splat(torch.ones(40)), ValueError, r"'x' of shape \[40, C\].*got \[40\]"),
        (
            lambda at: at.splat(torch.ones(40, 1, dtype=torch.int64)),
            TypeError,
            r"'x' of a floating-point type \(got torch.int64\)",
        ),
        (
            lambda at: at.splat(torch.ones(40, 1, device="meta")),
            ValueError,
            r"'x' on cpu like the lattice \(got meta\)",
        ),
        (
            lambda at: at.slice(torch.ones(at.num_vertices + 1, 2)),
            ValueError,
            r"'values' of shape \[(\d+), C\], one row for each of the \1 vertices",
        ),
        (
            lambda at: at.slice(torch.ones(at.num_vertices, 2).bool()),
            TypeError,
            r"'values' of a floating-point type \(got torch.bool\)",
        ),
    ],
)
def test_errors(call, error, message):
    _, _, at = located()
    with pytest.raises(error, match=message):
        call(at)
