"""Corners of the points of mean field, the slots of their runs, and normalization."""

from dataclasses import replace

import pytest
import torch

from permutogeo import Lattice
from permutogeo.lattice.normalization import normalizers
from permutogeo.ops import mean_field_points as module
from permutogeo.ops.mean_field import Blur, Corners
from permutogeo.ops.mean_field_points import JoinedPoints


def blur_of(lattice):
    radius = len(lattice.taps) // 2
    return Blur.on(lattice.neighbors(radius, stencil="axis"), lattice.dim, lattice.taps)


def make(monkeypatch, normalize=(None, None), dtype=torch.float32):
    monkeypatch.setattr(module, "_FEWEST_POINTS", 100)
    lattices = [Lattice.build((torch.rand(1000, dim) * 9).to(dtype)) for dim in (2, 3)]
    corners = [
        Corners(each.vertex, each.weight, each.num_vertices, kind, blur_of(each))
        for each, kind in zip(lattices, normalize, strict=True)
    ]
    return JoinedPoints(corners, 1000), lattices


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_corners_of_all_lattices_are_joined(monkeypatch, dtype):
    points, (first, second) = make(monkeypatch, dtype=dtype)
    vertex = torch.cat([first.vertex, second.vertex + first.num_vertices], 1)
    base = points.base.repeat_interleave(points.runs.diff())[:, None]
    assert torch.equal(points.owner[(points.slot + base).long()], vertex)
    assert torch.equal(points.source, torch.cat([first.weight, second.weight], 1).float())
    assert points.target is points.source


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_runs_share_no_cache_line(monkeypatch, threads):
    """Slots of different runs are apart, and each vertex lists those of its points."""
    monkeypatch.setattr(module.threads, "count", lambda: threads)
    points, lattices = make(monkeypatch)
    runs = points.runs.tolist()
    slots = [
        points.slot[first:last] + base
        for first, last, base in zip(runs, runs[1:], points.base, strict=False)
    ]
    assert len(slots) == 8
    lines = [each // module._LINE for each in slots]
    assert sum(len(each.unique()) for each in lines) == len(torch.cat(lines).unique())
    vertex = torch.cat([lattices[0].vertex, lattices[1].vertex + lattices[0].num_vertices], 1)
    assert torch.equal(points.owner[torch.cat(slots).long()], vertex)
    for first, (main, (into, extra)) in zip(points.edge, points.slots, strict=False):
        owner = first + torch.arange(len(main), dtype=torch.int32)
        assert torch.equal(points.owner[main.long()], owner)
        assert torch.equal(points.owner[into.long()], points.owner[extra.long()])
        assert (into < extra).all()
    listed = torch.cat([torch.cat([main, extra]) for main, (_, extra) in points.slots])
    assert torch.equal(listed.sort().values, torch.cat(slots).unique())


def test_slots_do_not_depend_on_threads(monkeypatch):
    torch.manual_seed(0)
    one = make(monkeypatch)[0]
    monkeypatch.setattr(module.threads, "count", lambda: 5)
    torch.manual_seed(0)
    five = make(monkeypatch)[0]
    assert torch.equal(one.slot, five.slot)
    assert torch.equal(one.owner, five.owner)


def test_vertices_without_points_have_the_last_slot():
    lattice = Lattice.build(torch.rand(50, 2) * 9)
    corners = Corners(lattice.vertex[:20], lattice.weight[:20], lattice.num_vertices)
    points = JoinedPoints([corners], 20)
    main = points.slots[0][0]
    used = torch.zeros(lattice.num_vertices, dtype=torch.bool)
    used[lattice.vertex[:20].long().unique()] = True
    assert (main[~used] == points.num_slots - 1).all()
    assert (main[used] < len(points.owner)).all()


@pytest.mark.parametrize(
    "normalize", [("symmetric", "symmetric"), ("before", "after"), ("after", None)]
)
def test_normalization_is_that_of_the_lattice(monkeypatch, normalize):
    points, lattices = make(monkeypatch, normalize)
    expected = [
        normalizers(kind, each, None, torch.float32, "blur", each.blur)
        for kind, each in zip(normalize, lattices, strict=True)
    ]
    for got, end in ((points.source, 0), (points.target, 1)):
        parts = [
            each.weight if factors[end] is None else each.weight * factors[end]
            for each, factors in zip(lattices, expected, strict=True)
        ]
        torch.testing.assert_close(got, torch.cat(parts, 1), rtol=1e-5, atol=1e-7)


def test_a_known_response_is_used():
    lattice = Lattice.build(torch.rand(50, 2) * 9)
    response = torch.full((lattice.num_vertices,), 4.0)
    corners = Corners(lattice.vertex, lattice.weight, lattice.num_vertices, "symmetric", None)
    known = JoinedPoints([replace(corners, response=response)], 50)
    torch.testing.assert_close(known.source, lattice.weight / 2)


def test_what_nothing_reaches_is_0():
    lattice = Lattice.build(torch.rand(50, 2) * 9)
    response = torch.zeros(lattice.num_vertices)
    corners = Corners(lattice.vertex, lattice.weight, lattice.num_vertices, "after", None, response)
    points = JoinedPoints([corners], 50)
    assert (points.target == 0).all()
    torch.testing.assert_close(points.source, lattice.weight)


def test_nothing_given_is_changed(monkeypatch):
    lattice = Lattice.build(torch.rand(50, 2) * 9)
    vertex, weight = lattice.vertex.clone(), lattice.weight.clone()
    corners = Corners(
        lattice.vertex, lattice.weight, lattice.num_vertices, "symmetric", blur_of(lattice)
    )
    JoinedPoints([corners], 50)
    assert torch.equal(lattice.vertex, vertex)
    assert torch.equal(lattice.weight, weight)
