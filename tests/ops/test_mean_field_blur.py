"""Blur of the sums of mean field, in one pass, against the blur of the lattice."""

import pytest
import torch

from permutogeo import Lattice, ops
from permutogeo.ops import mean_field_blur as module
from permutogeo.ops.mean_field_blur import Blur, Slots

WIDER = (0.1, 0.5, 1.0, 0.5, 0.1)


def blur_of(lattice):
    radius = len(lattice.taps) // 2
    return Blur.on(lattice.neighbors(radius, stencil="axis"), lattice.dim, lattice.taps)


def shuffled(lattice, width):
    """Values at vertices, and sums with them in any order, some of them in two parts."""
    count = lattice.num_vertices
    values = torch.randn(count, width)
    order = torch.randperm(count).int()
    sums = torch.zeros(count + count // 3, width)
    sums[order.long()] = values
    into, more = order[: count // 3], torch.arange(count, count + count // 3).int()
    sums[more.long()] = torch.randn(count // 3, width)
    values[: count // 3] += sums[more.long()]
    return values, sums, order, torch.stack([into, more])


def at_vertices(values, order, extra):
    """Values at vertices, which all slots of a vertex hold."""
    assert torch.equal(values[extra[0].long()], values[extra[1].long()])
    return values[order.long()]


@pytest.mark.parametrize(("width", "lanes"), [(1, 1), (2, 2), (4, 4), (24, 24), (32, 32), (48, 16)])
@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_is_the_blur_of_the_lattice(dim, width, lanes):
    lattice = Lattice.build(torch.rand(3000, dim) * 9)
    values, sums, slots, extra = shuffled(lattice, width)
    out = torch.full_like(sums, torch.nan)
    both, given = Slots(slots, extra, sums, out, lanes), sums.clone()
    for _ in range(2):  # the second time with what the first one prepared
        both.blur(blur_of(lattice), 2.5)
        got = at_vertices(out, slots, extra)
        torch.testing.assert_close(got, 2.5 * lattice.blur(values), rtol=1e-5, atol=1e-5)
        assert (sums == 0).all()
        sums.copy_(given)
    got = both.blur_to_vertices(blur_of(lattice), 2.5)
    torch.testing.assert_close(got, 2.5 * lattice.blur(values), rtol=1e-5, atol=1e-5)
    assert (sums == 0).all()


@pytest.mark.parametrize("window", [64, 100, 4096])
def test_does_not_depend_on_the_window(monkeypatch, window):
    """Neither for numbers of vertices around whole windows, nor for one vertex."""
    for count in (1, 3, 40, 400):
        lattice = Lattice.build(torch.arange(2.0 * count).view(-1, 2))
        values, sums, slots, extra = shuffled(lattice, 3)
        monkeypatch.setattr(module, "_WINDOW", window)
        monkeypatch.setattr(module, "_SMALLEST_WINDOW", 1)
        out = torch.empty_like(sums)
        Slots(slots, extra, sums, out, 3).blur(blur_of(lattice), 1.0)
        got = at_vertices(out, slots, extra)
        torch.testing.assert_close(got, lattice.blur(values), rtol=1e-5, atol=1e-5)


def test_wider_taps():
    lattice = Lattice.build(torch.rand(2000, 2) * 9, taps=WIDER)
    values, sums, slots, extra = shuffled(lattice, 4)
    out = torch.empty_like(sums)
    Slots(slots, extra, sums, out, 4).blur(blur_of(lattice), 1.0)
    got = at_vertices(out, slots, extra)
    torch.testing.assert_close(got, lattice.blur(values), rtol=1e-5, atol=1e-5)


def test_another_blur_after_the_first():
    """The workspace is kept: wider taps do not find there what the first blur left."""
    narrow = Lattice.build(torch.rand(1000, 2) * 20)
    values, sums, slots, extra = shuffled(narrow, 4)
    given, out = sums.clone(), torch.empty_like(sums)
    both = Slots(slots, extra, sums, out, 4)
    for radius in (1, 2, 1):
        taps = WIDER[2 - radius : 3 + radius]
        neighbors = narrow.neighbors(radius, stencil="axis")
        sums.copy_(given)
        both.blur(Blur.on(neighbors, 2, taps), 1.0)
        expected = ops.blur(values, neighbors, 2, taps, False)
        got = at_vertices(out, slots, extra)
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


def test_reach_is_the_largest_distance_of_neighbors():
    lattice = Lattice.build(torch.rand(2000, 3) * 9)
    blur, index = blur_of(lattice), torch.arange(lattice.num_vertices)[:, None]
    distance = torch.where(lattice.neighbors(stencil="axis") < 0, 0, blur.neighbors - index).abs()
    axes = distance.amax(0)[1:].view(-1, 2).amax(1)
    assert blur.reach == tuple(axes.tolist())


def test_gather_moves_the_sums():
    lattice = Lattice.build(torch.rand(500, 2) * 9)
    values, sums, slots, extra = shuffled(lattice, 8)
    out = Slots(slots, extra, sums, torch.empty_like(sums), 8).gather()
    torch.testing.assert_close(out, values)
    assert (sums == 0).all()


@pytest.mark.parametrize(("width", "lanes"), [(1, 1), (4, 4), (32, 16)])
def test_scatter_copies_to_all_slots(width, lanes):
    lattice = Lattice.build(torch.rand(500, 2) * 9)
    values, sums, slots, extra = shuffled(lattice, width)
    out = torch.full_like(sums, torch.nan)
    Slots(slots, extra, sums, out, lanes).scatter(values)
    assert torch.equal(at_vertices(out, slots, extra), values)


def test_too_large_lattices_have_no_blur(monkeypatch):
    lattice = Lattice.build(torch.rand(50, 2))
    monkeypatch.setattr(module, "_MOST_NEIGHBORS", 10)
    assert blur_of(lattice) is None


def test_no_vertices():
    lattice = Lattice.build(torch.empty(0, 2))
    none = torch.empty(0, dtype=torch.int32)
    empty = Slots(none, torch.stack([none, none]), torch.zeros(1, 4), torch.zeros(1, 4), 4)
    empty.blur(blur_of(lattice), 1.0)
    empty.scatter(empty.gather())
    assert empty.blur_to_vertices(blur_of(lattice)).shape == (0, 4)
