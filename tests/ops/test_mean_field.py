"""The step of mean field in one kernel, against the same step by slices, softmax and splats."""

import gc
import weakref

import numpy as np
import pytest
import torch

from permutogeo import Lattice
from permutogeo.lattice.normalization import normalizers
from permutogeo.ops import mean_field_points as module
from permutogeo.ops.mean_field import Blur, BlurFilter, Corners, FusedMeanField


def blur_of(lattice):
    radius = len(lattice.taps) // 2
    return Blur.on(lattice.neighbors(radius, stencil="axis"), lattice.dim, lattice.taps)


def scale(factor):
    """A filter that multiplies."""
    return lambda values: factor * values


def make(labels, count=3000, scales=(20.0, 5.0), dims=(2, 5), difference=False):
    """Mean field with normalized kernels, one before and after and one after only."""
    lattices = [
        Lattice.build(torch.rand(count, dim) * scale)
        for dim, scale in zip(dims, scales, strict=True)
    ]
    unary = 3 * torch.randn(count, labels)
    kinds = ("symmetric", "after")
    corners = [
        Corners(each.vertex, each.weight, each.num_vertices, kind, blur_of(each))
        for each, kind in zip(lattices, kinds, strict=True)
    ]
    factors = [
        normalizers(kind, each, None, torch.float32, "blur", each.blur)
        for kind, each in zip(kinds, lattices, strict=True)
    ]
    source, target = (
        [
            each.weight if pair[end] is None else each.weight * pair[end]
            for each, pair in zip(lattices, factors, strict=True)
        ]
        for end in (0, 1)
    )
    return FusedMeanField(unary, corners, difference), lattices, unary, source, target


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
    fused.step([scale(2.0), scale(-1.0)])
    logits, splats = by_parts(*parts, [2 * start[0], -start[1]])
    torch.testing.assert_close(fused.marginals(), logits.log_softmax(1), rtol=1e-4, atol=1e-4)
    fused.step([scale(1.0), scale(1.0)])
    logits, _ = by_parts(*parts, splats)
    torch.testing.assert_close(fused.marginals(log=False), logits.softmax(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("difference", [False, True])
@pytest.mark.parametrize("labels", [2, 3, 5, 21, 40])
def test_values_are_blurred(labels, difference):
    fused, *parts = make(labels, difference=difference)
    lattices = parts[0]
    blurs = [blur_of(each) for each in lattices]
    values = []
    for factors in ((2.5, 1.0), (0.5, -1.0)):
        _, splats = by_parts(*parts, values)
        fused.step([BlurFilter(*each) for each in zip(blurs, factors, strict=True)])
        values = [
            factor * each.blur(splat)
            for factor, each, splat in zip(factors, lattices, splats, strict=True)
        ]
    logits, _ = by_parts(*parts, values)
    torch.testing.assert_close(fused.marginals(), logits.log_softmax(1), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(fused.marginals(log=False), logits.softmax(1), rtol=1e-4, atol=1e-5)


def test_a_blur_is_mixed():
    fused, *parts = make(5)
    matrix = torch.randn(5, 5)
    _, splats = by_parts(*parts, [])
    mixed = [BlurFilter(blur_of(each), 2.0, lambda x: x @ matrix) for each in parts[0]]
    fused.step(mixed)
    values = [2 * each.blur(splat) @ matrix for each, splat in zip(parts[0], splats, strict=True)]
    logits, _ = by_parts(*parts, values)
    torch.testing.assert_close(fused.marginals(), logits.log_softmax(1), rtol=1e-4, atol=1e-4)


def test_responses_are_those_to_ones():
    fused, lattices, *_ = make(3)
    for got, lattice in zip(fused.responses, lattices, strict=True):
        expected = lattice.blur(lattice.splat(torch.ones(3000, 1)))[:, 0]
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("difference", [False, True])
def test_exponentials_are_accurate(difference):
    """Against float64: at most 1e-6 off, and exact enough far from the maximum."""
    x = torch.linspace(-60, 0, 20001)
    unary = torch.stack([torch.zeros_like(x), x], 1)
    lattice = Lattice.build(torch.zeros(len(x), 1))
    corners = Corners(lattice.vertex, lattice.weight, lattice.num_vertices)
    wanted = np.exp(x.double().numpy())
    wanted = np.stack([1 / (1 + wanted), wanted / (1 + wanted)], 1)
    for swap in ([0, 1], [1, 0]):  # either label may be the likely one
        fused = FusedMeanField(unary[:, swap], [corners], difference)
        got = fused.marginals(log=False).double().numpy()[:, swap]
        assert np.abs(got - wanted).max() < 1e-6
        near = x.numpy() > -10
        assert np.abs(got[near, 1] / wanted[near, 1] - 1).max() < 5e-6
        log = fused.marginals().numpy()[:, swap]
        np.testing.assert_allclose(log, np.log(wanted), rtol=2e-6, atol=1e-6)


def test_one_possible_label_of_two():
    """Infinite energies leave a label no probability."""
    unary = torch.tensor([[0.0, -torch.inf], [-torch.inf, 3.0], [1.0, 1.0]])
    lattice = Lattice.build(torch.rand(3, 1))
    corners = Corners(lattice.vertex, lattice.weight, lattice.num_vertices)
    got = FusedMeanField(unary, [corners], difference=True).marginals(log=False)
    torch.testing.assert_close(got, torch.tensor([[1.0, 0], [0, 1], [0.5, 0.5]]))


def test_an_error_in_a_filter_arrives():
    fused, *_ = make(3)
    with pytest.raises(ZeroDivisionError):
        fused.step([scale(1.0), lambda values: 1 // 0])


def test_nothing_given_is_changed():
    fused, lattices, unary, *_ = make(3)
    given = [unary, *(each.weight for each in lattices), *(each.vertex for each in lattices)]
    before = [tensor.clone() for tensor in given]
    fused.step([scale(2.0)] * 2)
    fused.step([BlurFilter(blur_of(each), 1.0) for each in lattices])
    fused.marginals()
    assert all(torch.equal(a, b) for a, b in zip(before, given, strict=True))


@pytest.mark.parametrize("labels", [2, 3, 21])
def test_no_points(labels):
    lattice = Lattice.build(torch.empty(0, 2))
    corners = Corners(lattice.vertex, lattice.weight, 0, "symmetric", blur_of(lattice))
    fused = FusedMeanField(torch.empty(0, labels), [corners], labels == 2)
    fused.step([BlurFilter(corners.blur, 1.0)])
    assert fused.marginals().shape == (0, labels)


@pytest.mark.parametrize("labels", [3, 5, 21, 40])
def test_excluded_labels_beside_the_padding(labels):
    """Blocks of labels end in the first logits of the next point."""
    unary = torch.randn(50, labels)
    unary[::2, 0] = unary[1::3, -1] = -torch.inf
    lattice = Lattice.build(torch.rand(50, 1))
    fused = FusedMeanField(unary, [Corners(lattice.vertex, lattice.weight, lattice.num_vertices)])
    torch.testing.assert_close(fused.marginals(log=False), unary.softmax(1))


def test_memory_is_released_with_the_last_reference():
    """Cycles of references would keep it until the garbage collector runs."""
    fused, lattices, *_ = make(3)
    fused.step([BlurFilter(blur_of(each), 1.0) for each in lattices])
    slots = [weakref.ref(each) for each in fused._slots]
    gc.disable()
    try:
        del fused
        assert all(each() is None for each in slots)
    finally:
        gc.enable()
