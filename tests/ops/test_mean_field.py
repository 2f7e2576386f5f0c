"""The step of mean field in one kernel, against the same step by slices, softmax and splats."""

import numpy as np
import pytest
import torch

from permutogeo import Lattice
from permutogeo.ops import mean_field as module
from permutogeo.ops.mean_field import Corners, FusedMeanField, VertexFilter, blur_filter


def scale(factor):
    """A filter that multiplies, into the buffer."""

    def apply(values, buffer):
        torch.mul(values, factor, out=buffer)
        values[:-1] = torch.nan  # only the result is read

    return VertexFilter(apply, moves=True)


def in_place(factor):
    def apply(values, buffer):
        values.mul_(factor)
        buffer[:-1] = torch.nan

    return VertexFilter(apply, moves=False)


def make(labels, count=3000, scales=(20.0, 5.0), dims=(2, 5)):
    lattices = [
        Lattice.build(torch.rand(count, dim) * scale)
        for dim, scale in zip(dims, scales, strict=True)
    ]
    unary = 3 * torch.randn(count, labels)
    source = [lattice.weight * torch.rand(count, 1) for lattice in lattices]
    target = [lattice.weight * torch.rand(count, 1) for lattice in lattices]
    corners = [
        Corners(lattice.vertex, *weights, lattice.num_vertices)
        for lattice, *weights in zip(lattices, source, target, strict=True)
    ]
    return FusedMeanField(unary, corners), lattices, unary, source, target


def by_parts(lattices, unary, source, target, values):
    """Logits of the points, and their marginals at vertices."""
    logits = unary.clone()
    for lattice, weight, at in zip(lattices, target, values, strict=False):
        logits += lattice.incidence.with_weight(weight).slice(at)
    q = logits.softmax(1)
    splats = [
        lattice.incidence.with_weight(weight).splat(q)
        for lattice, weight in zip(lattices, source, strict=True)
    ]
    return logits, splats


@pytest.mark.parametrize("fewest", [100, 1 << 14])
@pytest.mark.parametrize("labels", [1, 2, 3, 4, 7, 8, 21, 33, 200])
def test_is_slice_softmax_and_splat(monkeypatch, labels, fewest):
    """For rows of all widths, with vertices that several runs of points share, and without."""
    monkeypatch.setattr(module, "_FEWEST_POINTS", fewest)
    fused, *parts = make(labels)
    torch.testing.assert_close(
        fused.marginals(), parts[1].log_softmax(1), rtol=1e-5, atol=1e-5 if labels > 1 else 1e-6
    )
    _, start = by_parts(*parts, [])
    fused.step([scale(2.0), in_place(-1.0)])
    logits, splats = by_parts(*parts, [2 * start[0], -start[1]])
    torch.testing.assert_close(fused.marginals(), logits.log_softmax(1), rtol=1e-4, atol=1e-4)
    fused.step([scale(1.0), in_place(1.0)])
    logits, _ = by_parts(*parts, splats)
    torch.testing.assert_close(fused.marginals(log=False), logits.softmax(1), rtol=1e-4, atol=1e-5)


def test_one_lattice_is_blurred():
    lattice = Lattice.build(torch.rand(2000, 3) * 9)
    unary, weight = torch.randn(2000, 5), lattice.weight
    fused = FusedMeanField(unary, [Corners(lattice.vertex, weight, weight, lattice.num_vertices)])
    neighbors = lattice.neighbors(stencil="axis")
    fused.step([blur_filter(neighbors, 3, lattice.taps, lattice.num_vertices, 2.5)])
    message = lattice.slice(2.5 * lattice.blur(lattice.splat(unary.softmax(1))))
    torch.testing.assert_close(
        fused.marginals(), (unary + message).log_softmax(1), rtol=1e-4, atol=1e-4
    )


def test_exponentials_are_accurate():
    """Against float64: at most 1e-6 off, and exact enough far from the maximum."""
    x = torch.linspace(-60, 0, 20001)
    unary = torch.stack([torch.zeros_like(x), x], 1)
    lattice = Lattice.build(torch.zeros(len(x), 1))
    corners = Corners(lattice.vertex, lattice.weight, lattice.weight, lattice.num_vertices)
    got = FusedMeanField(unary, [corners]).marginals(log=False).double().numpy()
    wanted = np.exp(x.double().numpy())
    wanted = np.stack([1 / (1 + wanted), wanted / (1 + wanted)], 1)
    assert np.abs(got - wanted).max() < 1e-6
    near = x.numpy() > -10
    assert np.abs(got[near, 1] / wanted[near, 1] - 1).max() < 5e-6
    log = FusedMeanField(unary, [corners]).marginals().numpy()
    np.testing.assert_allclose(log, np.log(wanted), rtol=2e-6, atol=1e-6)


def test_an_error_in_a_filter_arrives():
    fused, *_ = make(3)
    with pytest.raises(ZeroDivisionError):
        fused.step([scale(1.0), VertexFilter(lambda values, buffer: 1 // 0, moves=True)])


def test_nothing_given_is_changed():
    fused, _, unary, source, target = make(3)
    before = [tensor.clone() for tensor in (unary, *source, *target)]
    fused.step([scale(2.0)] * 2)
    fused.step([in_place(2.0)] * 2)
    fused.marginals()
    assert all(torch.equal(a, b) for a, b in zip(before, (unary, *source, *target), strict=True))


def test_no_points():
    lattice = Lattice.build(torch.empty(0, 2))
    corners = Corners(lattice.vertex, lattice.weight, lattice.weight, 0)
    fused = FusedMeanField(torch.empty(0, 3), [corners])
    fused.step([scale(1.0)])
    assert fused.marginals().shape == (0, 3)
