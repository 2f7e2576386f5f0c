import sys

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from permutogeo import Lattice, ops
from permutogeo.ops import boxes
from permutogeo.testing.reference import axis_stencil, elevate

build_module = sys.modules["permutogeo.ops.build"]
insert_module = sys.modules["permutogeo.ops.insert"]


def assert_matches(found):
    """Vertices and weights of all corners are the reference's (keys are, or there is no case)."""
    lattice, reference = found.lattice, found.reference
    assert lattice.vertex.dtype == lattice.key.dtype == torch.int32
    expected = np.take_along_axis(reference.vertex, found.corner, 1)
    np.testing.assert_array_equal(found.to_reference[lattice.vertex.long()], expected)
    np.testing.assert_array_equal(
        lattice.vertex_batch, found.from_reference(reference.vertex_batch)
    )
    tolerance = 1e-7 if lattice.weight.dtype == torch.float32 else 1e-9
    expected = np.take_along_axis(reference.weight, found.corner, 1)
    np.testing.assert_allclose(lattice.weight, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("spread", [0.1, 2.0, 100.0])
def test_reference(case, dim, dtype, spread):
    assert_matches(case(dim, dtype, num_points=200, spread=spread))


@pytest.mark.parametrize("dim", [16, 20])
def test_reference_in_many_dimensions(case, dtype, dim):
    assert_matches(case(dim, dtype, num_points=50, spread=2.0))


def test_reference_of_ties(case_of, dim):
    """Points on faces, edges and vertices: their corners of weight zero are vertices too."""
    feature = 3 * torch.randn(120, dim, dtype=torch.float64)
    for row in range(100):
        feature[row, : 1 + row % dim] = 0
    found = case_of(feature)
    assert_matches(found)
    assert (found.lattice.weight == 0).any()


@pytest.mark.parametrize("sigma", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_reference_of_a_grid(case_of, dtype, dim, sigma):
    axes = torch.meshgrid(*[torch.arange(6, dtype=dtype)] * dim, indexing="ij")
    assert_matches(case_of(torch.stack(axes, -1).view(-1, dim) / sigma))


def test_reference_of_lattice_points(case_of):
    """In one dimension with a step of one in the elevated coordinate, where rounding is exact."""
    step = 1 / (2 * np.sqrt(2 / 3) / np.sqrt(2))
    assert_matches(case_of(step * torch.arange(-20, 20, dtype=torch.float64).unsqueeze(1)))


def test_weights_interpolate_the_point(dim):
    """``sum_k weight_k key_k`` is the elevated point."""
    feature = 5 * torch.randn(100, dim, dtype=torch.float64)
    lattice = Lattice.build(feature)
    point = torch.einsum("nk,nkd->nd", lattice.weight, lattice.key[lattice.vertex.long()].double())
    np.testing.assert_allclose(point, elevate(feature)[:, :dim], atol=1e-9)
    assert lattice.weight.min() >= 0
    assert_close(lattice.weight.sum(1), torch.ones(100, dtype=torch.float64))


def test_large_coordinates_keep_their_fraction(dim):
    """A million lattice steps away the weights are the same."""
    feature = torch.randn(50, dim, dtype=torch.float64)
    basis = elevate(np.eye(dim)).T
    step = torch.from_numpy(np.linalg.lstsq(basis, axis_stencil(dim)[1], rcond=None)[0])
    near, far = Lattice.build(feature), Lattice.build(feature + 10**6 * step)
    assert_close(far.weight, near.weight, rtol=0, atol=1e-8)
    assert (far.key - near.key == 10**6 * torch.from_numpy(axis_stencil(dim)[1, :dim])).all()


def test_large_single_precision_coordinates_keep_their_fraction(case_of, dim):
    assert_matches(case_of(1e5 + 100 * torch.randn(50, dim)))


def test_many_more_vertices_than_slots(case_of, monkeypatch, dtype):
    """The tables grow several times, and the result is that of a table that never had to."""
    feature, batch = 5 * torch.randn(1500, 5, dtype=dtype), torch.randint(0, 4, (1500,))
    roomy = ops.build(feature, batch, 0.5)
    monkeypatch.setattr(insert_module, "_MOST_FIRST_SLOTS", 32)
    assert_close(ops.build(feature, batch, 0.5), roomy, rtol=0, atol=0)
    found = case_of(feature, batch)
    assert found.lattice.num_vertices > 100 * 32
    assert_matches(found)


@pytest.mark.usefixtures("hashed")
@pytest.mark.parametrize("spread", [1.0, 1e7])
@pytest.mark.parametrize("dim", [1, 3, 8])
def test_atomic_insertion_gives_the_same_lattice(monkeypatch, dtype, dim, spread):
    """The path of CUDA, on a single thread."""
    feature, batch = spread * torch.randn(500, dim, dtype=dtype), torch.randint(0, 3, (500,))
    expected = ops.build(feature, batch, 0.5)
    assert (expected[2].shape[1] > 1) == (dim > 1 and spread > 1)
    monkeypatch.setattr(build_module, "_insert_on_threads", build_module._insert_atomically)
    assert_close(ops.build(feature, batch, 0.5), expected, rtol=0, atol=0)


def test_a_given_box_gives_the_same_lattice(dtype):
    """Codes differ with the box; the vertices and their order do not."""
    feature, batch = torch.randn(200, 3, dtype=dtype), torch.randint(0, 3, (200,))
    weight, vertex, code, box = ops.build(feature, batch, 0.5)
    wider = boxes.pad(box, 7)
    found = ops.build_in_box(feature, batch, wider, 0.5)
    assert_close(found[:2], (weight, vertex), rtol=0, atol=0)
    assert torch.equal(boxes.decode(found[2], wider), boxes.decode(code, box))
    empty = ops.build_in_box(feature[:0], batch[:0], wider, 0.5)
    assert [list(part.shape) for part in empty] == [[0, 4], [0, 4], [0, 1]]


def test_gradients(check):
    """Through the weights; elsewhere than on faces, where there is no derivative."""
    feature = torch.randn(8, 3, dtype=torch.float64)
    check.gradients(lambda f: ops.build(f, None, 0.5)[0], feature)
    box = Lattice.build(feature).box
    check.gradients(lambda f: ops.build_in_box(f, None, box, 0.5)[0], feature)
    values = torch.randn(Lattice.build(feature).num_vertices, 2, dtype=torch.float64)

    def sliced(feature, values):
        return Lattice.build(feature).slice(values)

    check.gradients(sliced, feature, values)


def test_opcheck(check):
    feature, batch = torch.randn(20, 3), torch.randint(0, 3, (20,))
    check.registered(
        torch.ops.permutogeo.build.default,
        (feature, None, 0.5),
        (feature.double(), batch, 1.0),
        (feature.clone().requires_grad_(), batch, 0.5),
    )
    box = ops.build(feature, batch, 0.5)[3]
    check.registered(
        torch.ops.permutogeo.build_in_box.default,
        (feature, batch, box, 0.5),
        (feature.clone().requires_grad_(), None, box, 0.5),
    )


# While inductor is imported, torch defines scripted methods of its own.
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is:DeprecationWarning")
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile(check, backend):
    """The number of vertices is known only when the operator has run."""

    def smooth(feature, x):
        lattice = Lattice.build(feature)
        return lattice.slice(lattice.blur(lattice.splat(x.sin()))).exp()

    check.compiles(smooth, torch.randn(50, 3), torch.randn(50, 5), backend=backend)


def test_compiled_once_for_all_sizes():
    def smooth(feature, x):
        lattice = Lattice.build(feature)
        return lattice.slice(lattice.blur(lattice.splat(x)))

    torch._dynamo.reset()
    compiled = torch.compile(smooth, fullgraph=True, dynamic=True, backend="aot_eager")
    with torch._dynamo.config.patch(error_on_recompile=True):
        for count in (20, 50, 500):
            feature, x = torch.randn(count, 3), torch.randn(count, 5)
            assert_close(compiled(feature, x), smooth(feature, x))


def test_empty(dim, dtype):
    weight, vertex, code, box = ops.build(torch.empty(0, dim, dtype=dtype), None, 0.5)
    assert weight.shape == vertex.shape == (0, dim + 1)
    assert code.shape == (0, 1) and box.shape == (dim + 1, 3)
    batch = torch.empty(0, dtype=torch.int64)
    assert Lattice.build(torch.empty(0, dim, dtype=dtype), batch).num_vertices == 0


def test_layouts(check):
    feature, batch = torch.randn(60, 3), torch.randint(0, 3, (60,))
    check.layouts(ops.build, feature, batch, 0.5)


def test_unchanged(check):
    check.unchanged(ops.build, torch.randn(60, 3), torch.randint(0, 3, (60,)), 0.5)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("row", [0, 7, 20000])
def test_not_finite(dtype, value, row):
    feature = torch.randn(20001, 3, dtype=dtype)
    feature[row, 1] = value
    with pytest.raises(ValueError, match=rf"finite 'feature' \(got {value} in row {row}, column 1"):
        ops.build(feature, None, 0.5)


@pytest.mark.parametrize("value", [1e10, -1e10, 1e30])
def test_too_large(dim, dtype, value):
    feature = torch.randn(10, dim, dtype=dtype)
    feature[3, 0] = value
    with pytest.raises(ValueError, match=r"keys fit 32 bits \(got \[.*\] in row 3, which needs"):
        ops.build(feature, None, 0.5)


def test_negative_batch():
    batch = torch.tensor([0, 2, -1, -3])
    with pytest.raises(ValueError, match=r"'batch' without negative entries \(got -1 in row 2\)"):
        ops.build(torch.randn(4, 2), batch, 0.5)
