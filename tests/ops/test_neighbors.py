import numpy as np
import pytest
import torch
from torch.testing import assert_close

from permutogeo import Lattice, ops, stencil
from permutogeo.testing.reference import axis_stencil, elevate


def offsets_of(dim, radius, dilation, kind):
    return dilation * (
        stencil(dim, radius).numpy() if kind == "full" else axis_stencil(dim, radius)
    )


def assert_matches(found, radius, dilation, kind):
    neighbors = ops.neighbors(found.lattice.code, found.lattice.box, radius, dilation, kind)
    expected = found.reference.neighbors(offsets_of(found.lattice.dim, radius, dilation, kind))
    expected = found.from_reference(expected)
    actual = np.where(neighbors < 0, -1, found.to_reference[neighbors])
    np.testing.assert_array_equal(actual, expected)


def lattice_points(dim, keys):
    """Features just inside a simplex at each of the lattice points ``keys``."""
    basis = elevate(np.eye(dim)).T
    feature = np.linalg.lstsq(basis, np.asarray(keys, float).T, rcond=None)[0].T
    return torch.from_numpy(feature + 1e-3 * np.arange(1, dim + 1) / dim)


@pytest.mark.parametrize("kind", ["full", "axis"])
def test_reference(case, dim, kind):
    assert_matches(case(dim), 1, 1, kind)


def test_reference_in_16_dimensions(case):
    assert_matches(case(16), 1, 1, "axis")


@pytest.mark.parametrize("kind", ["full", "axis"])
@pytest.mark.parametrize(("radius", "dilation"), [(0, 1), (2, 1), (3, 1), (1, 5), (3, 5), (2, 40)])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_reference_beyond_the_padding(case, dim, radius, dilation, kind):
    """Offsets that leave the box of the codes, and whose sums would be other vertices' codes."""
    assert_matches(case(dim, num_points=150, spread=4.0), radius, dilation, kind)


@pytest.mark.parametrize(("dim", "words"), [(3, 2), (8, 4)])
def test_reference_of_codes_of_several_words(case_of, dim, words):
    feature = torch.cat([torch.randn(10, dim), 1e7 + torch.randn(10, dim)]).double()
    found = case_of(feature)
    assert found.lattice.code.shape[1] == words
    assert_matches(found, 1, 1, "axis")
    assert_matches(found, 2, 3, "axis")


def test_reference_over_many_blocks(case):
    """More vertices than a thread walks after one search."""
    found = case(2, num_points=1500, spread=25.0)
    assert found.lattice.num_vertices > 3000
    assert_matches(found, 2, 1, "full")


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_an_absent_vertex_hides_nothing(dim):
    """Along an axis: present, four absent ones, present."""
    step = axis_stencil(dim)[1]
    lattice = Lattice.build(lattice_points(dim, [0 * step, 5 * step]))
    keys = lattice.key.tolist()
    first, last = keys.index([0] * dim), keys.index((5 * step[:dim]).tolist())
    offsets = axis_stencil(dim, 5).tolist()
    reach = [offsets.index((k * step).tolist()) for k in range(1, 6)]
    neighbors = lattice.neighbors(5, stencil="axis")
    assert neighbors[first, reach[4]] == last
    assert (neighbors[first, reach[1:3]] == -1).all()
    assert neighbors[last, offsets.index((-5 * step).tolist())] == first


def test_graphs_are_no_neighbors():
    feature = torch.randn(30, 2).repeat(3, 1)
    lattice = Lattice.build(feature, torch.arange(3).repeat_interleave(30))
    one = Lattice.build(feature[:30])
    count = one.num_vertices
    expected = one.neighbors(3, 2)
    for graph in range(3):
        part = lattice.neighbors(3, 2)[graph * count : (graph + 1) * count]
        assert_close(part, torch.where(expected < 0, -1, expected + graph * count))


def test_opposite(case, dim):
    """The neighbor at an offset has this vertex at the opposite one."""
    found = case(dim)
    neighbors, opposite = found.stencil(1, 1, "axis")
    vertex, tap = (neighbors >= 0).nonzero(as_tuple=True)
    assert_close(neighbors[neighbors[vertex, tap], opposite[tap]].long(), vertex)
    offsets = stencil(dim, 1)
    assert_close(offsets[ops.opposite(found.lattice.code, dim, 1, "full")], -offsets)


def test_opcheck(case, check):
    lattice = case(3).lattice
    code, box = lattice.code, lattice.box
    check.registered(
        torch.ops.permutogeo.neighbors.default, (code, box, 1, 1, "full"), (code, box, 2, 3, "axis")
    )
    check.registered(torch.ops.permutogeo.opposite.default, (code, 3, 2, "full"))


def test_compile(case):
    lattice = case(3).lattice
    compiled = torch.compile(
        lambda code, box: ops.neighbors(code, box, 1, 2, "full"),
        fullgraph=True,
        backend="aot_eager",
    )
    assert torch.equal(compiled(lattice.code, lattice.box), lattice.neighbors(1, 2))


def test_empty(dim):
    lattice = Lattice.build(torch.empty(0, dim))
    assert lattice.neighbors(1, 1, "axis").shape == (0, len(axis_stencil(dim)))
    assert lattice.neighbors(2, 3, "axis").shape == (0, len(axis_stencil(dim, 2)))


@pytest.mark.parametrize("spread", [1.0, 1e7])
def test_layouts(check, spread):
    lattice = Lattice.build(spread * torch.randn(40, 3, dtype=torch.float64))
    check.layouts(ops.neighbors, lattice.code, lattice.box, 1, 1, "full")
    check.layouts(ops.neighbors, lattice.code, lattice.box, 2, 3, "axis")


def test_unchanged(case, check):
    lattice = case(3).lattice
    check.unchanged(ops.neighbors, lattice.code, lattice.box, 1, 1, "full")
    check.unchanged(ops.neighbors, lattice.code, lattice.box, 2, 3, "axis")


def test_errors(case):
    lattice = case(3).lattice
    with pytest.raises(ValueError, match=r"Expected 'dilation' of at least 1 \(got 0\)"):
        lattice.neighbors(dilation=0)
    with pytest.raises(ValueError, match=r"Expected 'radius' of at least 0 \(got -1\)"):
        lattice.neighbors(-1)
    with pytest.raises(ValueError, match=r"'full' or 'axis' .*'star'"):
        lattice.neighbors(stencil="star")
    with pytest.raises(ValueError, match=r"2097151 taps.*stencil='axis' \(43 taps\)"):
        Lattice.build(torch.zeros(1, 20)).neighbors()
    with pytest.raises(ValueError, match=r"axis stencil .*8000001 taps.* a smaller radius"):
        lattice.neighbors(10**6, stencil="axis")
