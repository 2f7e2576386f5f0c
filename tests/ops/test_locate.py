import numpy as np
import pytest
import torch
from torch.testing import assert_close

from permutogeo import Lattice, ops


def queries(found, count=60, spread=2.0):
    """Points, some of them off the lattice, some in a graph that it does not have."""
    feature = found.lattice.feature
    other = spread * torch.randn(count, feature.shape[1], dtype=feature.dtype)
    other = torch.cat([feature[:20] + 0.01, other, 1e4 * other[:5]])
    return other, torch.cat([found.lattice.batch[:20], torch.randint(0, 4, (count + 5,))])


def arguments(found, feature, batch):
    lattice = found.lattice
    slots = ops.hash_codes(lattice.code)
    return feature, batch, lattice.code, lattice.box, slots, 0.5


def assert_matches(found, other):
    """The points of ``other``, a case of its own, on the lattice of ``found``."""
    feature, batch = other.lattice.feature, other.lattice.batch
    weight, vertex = ops.locate(*arguments(found, feature, batch))
    expected, _ = found.reference.locate(feature.double(), batch)
    actual = np.where(vertex < 0, -1, found.to_reference[vertex])
    np.testing.assert_array_equal(actual, np.take_along_axis(expected, other.corner, 1))
    assert torch.equal(weight, other.lattice.weight)
    assert (vertex < 0).any() and (vertex >= 0).any()


def test_reference(case, case_of, dim, dtype):
    found = case(dim, dtype)
    assert_matches(found, case_of(*queries(found)))


def test_reference_in_16_dimensions(case, case_of):
    found = case(16)
    assert_matches(found, case_of(*queries(found)))


def test_own_points(case, dim, dtype):
    found = case(dim, dtype)
    lattice = found.lattice
    weight, vertex = ops.locate(*arguments(found, lattice.feature, lattice.batch))
    assert torch.equal(weight, lattice.weight) and torch.equal(vertex, lattice.vertex)


@pytest.mark.parametrize("shift", [-1e6, -40.0, -4.0, 4.0, 40.0, 1e6])
def test_far_points_are_absent(dim, shift):
    """Also where their code, taken for a number, would be some vertex's."""
    lattice = Lattice.build(0.3 * torch.randn(500, dim, dtype=torch.float64))
    for axis in range(dim):
        feature = lattice.feature.clone()
        feature[:, axis] += shift * dim
        assert (lattice.locate(feature).vertex == -1).all()


def test_other_graphs_are_absent(case):
    lattice = case(3).lattice
    batch = torch.full_like(lattice.batch, 2)
    assert (lattice.locate(lattice.feature, batch).vertex == -1).all()


def test_gradients(check):
    lattice = Lattice.build(torch.randn(30, 3, dtype=torch.float64))
    values = torch.randn(lattice.num_vertices, 2, dtype=torch.float64)
    other = torch.randn(6, 3, dtype=torch.float64)
    other[0] += 100
    check.gradients(lambda f: lattice.locate(f).weight, other)
    check.gradients(lambda f, v: lattice.locate(f).slice(v), other, values)
    check.gradients(lambda f, x: lattice.locate(f).splat(x), other, values[:6])


def test_opcheck(case, check):
    found = case(3)
    feature, batch = queries(found)
    check.registered(
        torch.ops.permutogeo.locate.default,
        arguments(found, feature, batch),
        arguments(found, feature, None),
        arguments(found, feature.float(), batch),
        arguments(found, feature.clone().requires_grad_(), batch),
    )
    check.registered(torch.ops.permutogeo.hash_codes.default, (found.lattice.code,))
    slots = ops.hash_codes(found.lattice.code)
    code = found.lattice.code
    check.registered(torch.ops.permutogeo.find.default, (code[:9] + 1, code, slots))


def test_compile(case, check):
    found = case(3)
    feature, batch, *rest = arguments(found, *queries(found))
    check.compiles(lambda f: ops.locate(f, batch, *rest)[0], feature)


def test_compile_with_the_table(case, check):
    found = case(3)
    code, box = found.lattice.code, found.lattice.box

    def weigh(feature):
        weight, vertex = ops.locate(feature, None, code, box, ops.hash_codes(code), 0.5)
        return torch.where(vertex >= 0, weight, 0)

    check.compiles(weigh, queries(found)[0])


def test_empty(dim):
    empty = torch.empty(0, dim)
    lattice = Lattice.build(torch.randn(20, dim))
    assert lattice.locate(empty).vertex.shape == (0, dim + 1)
    nowhere = Lattice.build(empty)
    assert (nowhere.locate(torch.randn(7, dim)).vertex == -1).all()


def test_empty_lattice():
    """Points on a lattice of no vertices read 0 and splat nothing."""
    at = Lattice.build(torch.empty(0, 3)).locate(torch.randn(5000, 3))
    assert_close(at.slice(torch.empty(0, 4)), torch.zeros(5000, 4))
    assert at.splat(torch.randn(5000, 4)).shape == (0, 4)


def test_layouts(case, check):
    found = case(3)
    check.layouts(ops.locate, *arguments(found, *queries(found)))


def test_layouts_of_codes_of_several_words(check):
    lattice = Lattice.build(1e7 * torch.randn(40, 3, dtype=torch.float64))
    code, box, slots = lattice.code, lattice.box, ops.hash_codes(lattice.code)
    assert code.shape[1] == 2
    check.layouts(ops.hash_codes, code)
    check.layouts(ops.find, code, code, slots)
    check.layouts(ops.locate, lattice.feature, None, code, box, slots, 0.5)


def test_unchanged(case, check):
    found = case(3)
    args = arguments(found, *queries(found))
    check.unchanged(ops.locate, *args)
    check.unchanged(ops.hash_codes, args[2])
    check.unchanged(ops.find, args[2], args[2], args[4])


def test_errors(case):
    lattice = case(3).lattice
    feature, batch = torch.zeros(4, 3, dtype=torch.float64), torch.zeros(4, dtype=torch.int64)
    feature[2, 1] = float("nan")
    with pytest.raises(ValueError, match=r"finite 'feature' \(got nan in row 2, column 1\)"):
        lattice.locate(feature, batch)
    feature[2, 1] = 1e12
    with pytest.raises(ValueError, match=r"keys fit 32 bits .* in row 2"):
        lattice.locate(feature, batch)
    with pytest.raises(ValueError, match=r"Expected 'feature' of shape \[N, 3\].*got \[4, 2\]"):
        lattice.locate(torch.zeros(4, 2))
    with pytest.raises(ValueError, match=r"without negative entries \(got -1 in row 0\)"):
        lattice.locate(torch.zeros(4, 3), torch.full((4,), -1))
    with pytest.raises(ValueError, match=r"Expected 'batch' of shape \[4\].*got \[3\]"):
        lattice.locate(torch.zeros(4, 3), torch.zeros(3, dtype=torch.int64))
